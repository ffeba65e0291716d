// Package examples has cluster files to start from, and in its folders small programs that use
// one package each.
package examples

import (
	"bytes"
	_ "embed"
	"slices"
)

// EightA100 is the cluster file of eight-a100, the default of the targets if there is no
// cluster.yaml.
//
//go:embed eight-a100/cluster.yaml
var EightA100 []byte

// platform are the sections of a cluster file for what runs on Kubernetes.
var platform = [...]string{"charts", "storage", "loadBalancer", "ingress", "tls", "rancher", "fleet", "monitoring", "backup", "hub"}

// WithoutPlatform returns a cluster file without what runs on Kubernetes: only the machines
// and the empty cluster.
func WithoutPlatform(file []byte) []byte {
	var out []byte
	inside := false
	for line := range bytes.Lines(file) {
		if key, _, _ := bytes.Cut(line, []byte(":")); !bytes.ContainsAny(line[:1], " \n#") {
			inside = slices.Contains(platform[:], string(key))
		}
		if !inside {
			out = append(out, line...)
		}
	}
	return out
}
