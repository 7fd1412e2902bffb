// A minimal mutating webhook in Go, standard library only: what forewarn's own is measured against.
//
// It does the plain case alone: the podinfo volume, a mount in every container that mounts nothing at its path, and
// the grace. Usage: webhook ADDRESS CERT KEY
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

type mount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	ReadOnly  bool   `json:"readOnly"`
}

type container struct {
	Name         string  `json:"name"`
	VolumeMounts []mount `json:"volumeMounts"`
}

type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    *struct {
		UID    string `json:"uid"`
		Object struct {
			Spec struct {
				Containers     []container       `json:"containers"`
				InitContainers []container       `json:"initContainers"`
				Volumes        []json.RawMessage `json:"volumes"`
				Grace          *int64            `json:"terminationGracePeriodSeconds"`
			} `json:"spec"`
		} `json:"object"`
	} `json:"request,omitempty"`
	Response *response `json:"response,omitempty"`
}

type response struct {
	UID       string `json:"uid"`
	Allowed   bool   `json:"allowed"`
	PatchType string `json:"patchType"`
	Patch     []byte `json:"patch"`
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func fieldOf(key string) map[string]any {
	return map[string]any{"fieldPath": fmt.Sprintf("metadata.annotations['%s']", key)}
}

var volume = map[string]any{
	"name": "podinfo",
	"downwardAPI": map[string]any{"items": []any{
		map[string]any{"path": "guaranteed-until", "fieldRef": fieldOf("galends/guaranteed-until")},
		map[string]any{"path": "termination-warning-at", "fieldRef": fieldOf("galends/termination-warning-at")},
		map[string]any{"path": "termination-warning-risk", "fieldRef": fieldOf("galends/termination-warning-risk")},
		map[string]any{"path": "termination-warning-message", "fieldRef": fieldOf("galends/termination-warning-message")},
		map[string]any{"path": "idle-gpu-status", "fieldRef": fieldOf("dsmlp/idle-gpu-status")},
		map[string]any{"path": "idle-gpu-cull-deadline", "fieldRef": fieldOf("dsmlp/idle-gpu-cull-deadline")},
	}},
}

func add(patch []operation, present int, path string, value any) []operation {
	if present > 0 {
		return append(patch, operation{"add", path + "/-", value})
	}
	return append(patch, operation{"add", path, []any{value}})
}

func mounts(patch []operation, field string, containers []container) []operation {
	for index, each := range containers {
		taken := false
		for _, m := range each.VolumeMounts {
			taken = taken || m.MountPath == "/etc/podinfo"
		}
		if !taken {
			path := fmt.Sprintf("/spec/%s/%d/volumeMounts", field, index)
			patch = add(patch, len(each.VolumeMounts), path, mount{"podinfo", "/etc/podinfo", true})
		}
	}
	return patch
}

func mutate(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 3<<20))
	var in review
	if err != nil || json.Unmarshal(body, &in) != nil || in.Request == nil {
		http.Error(w, "not an AdmissionReview", http.StatusBadRequest)
		return
	}
	spec := in.Request.Object.Spec
	patch := add(nil, len(spec.Volumes), "/spec/volumes", volume)
	patch = mounts(patch, "initContainers", spec.InitContainers)
	patch = mounts(patch, "containers", spec.Containers)
	if spec.Grace == nil || *spec.Grace < 600 {
		patch = append(patch, operation{"add", "/spec/terminationGracePeriodSeconds", 600})
	}
	encoded, err := json.Marshal(patch)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	out := review{APIVersion: in.APIVersion, Kind: in.Kind, Response: &response{in.Request.UID, true, "JSONPatch", encoded}}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(out)
}

func main() {
	http.HandleFunc("/mutate", mutate)
	log.Fatal(http.ListenAndServeTLS(os.Args[1], os.Args[2], os.Args[3], nil))
}
