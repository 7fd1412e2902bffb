// Creates pods by dry-run from several clients at once and prints each creation's milliseconds as a JSON list.
//
// Usage: load URL CA CERT KEY POD-FILE CLIENTS COUNT MUST-HAVE
// Every answer must be 201 and hold the text MUST-HAVE (a creation that missed the webhook is no measurement).
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func main() {
	url, pod, needed := os.Args[1], must(os.ReadFile(os.Args[5])), []byte(os.Args[8])
	clients, count := must(strconv.Atoi(os.Args[6])), must(strconv.Atoi(os.Args[7]))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(os.Args[2])))
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{must(tls.LoadX509KeyPair(os.Args[3], os.Args[4]))}}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: clients}}

	create := func() float64 {
		started := time.Now()
		answer := must(client.Post(url, "application/json", bytes.NewReader(pod)))
		body := must(io.ReadAll(answer.Body))
		answer.Body.Close()
		spent := time.Since(started).Seconds() * 1000
		if answer.StatusCode != http.StatusCreated || !bytes.Contains(body, needed) {
			fmt.Fprintf(os.Stderr, "status %d: %s\n", answer.StatusCode, body)
			os.Exit(1)
		}
		return spent
	}

	var group sync.WaitGroup
	results := make([][]float64, clients)
	for number := range results {
		group.Add(1)
		go func() {
			defer group.Done()
			create() // opens the connection
			for done := 0; done < count/clients; done++ {
				results[number] = append(results[number], create())
			}
		}()
	}
	group.Wait()
	all := []float64{}
	for _, each := range results {
		all = append(all, each...)
	}
	must(0, json.NewEncoder(os.Stdout).Encode(all))
}
