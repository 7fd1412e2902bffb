// Reads pod manifests as kubectl does and expands their arguments as the kubelet does: one manifest a line (a JSON
// string of YAML) in, one JSON line {"command", "args", "env"} or {"error"} out.
package main

import (
	"bufio"
	"encoding/json"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
	"sigs.k8s.io/yaml"
)

type answer struct {
	Command []string          `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Error   string            `json:"error,omitempty"`
}

func read(line []byte) answer {
	var text string
	if err := json.Unmarshal(line, &text); err != nil {
		return answer{Error: err.Error()}
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(text), &pod); err != nil {
		return answer{Error: err.Error()}
	}
	container := pod.Spec.Containers[0]
	env := map[string]string{}
	mapping := expansion.MappingFuncFor(env)
	for _, one := range container.Env {
		env[one.Name] = expansion.Expand(one.Value, mapping)
	}
	expand := func(words []string) []string {
		result := []string{}
		for _, word := range words {
			result = append(result, expansion.Expand(word, mapping))
		}
		return result
	}
	return answer{Command: expand(container.Command), Args: expand(container.Args), Env: env}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for lines.Scan() {
		if err := out.Encode(read(lines.Bytes())); err != nil {
			panic(err)
		}
	}
}
