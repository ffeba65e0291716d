// Package examples holds cluster files to begin with, and in the folders below it
// small programs that use one package each.
package examples

import (
	"bytes"
	_ "embed"
	"slices"
)

// EightA100 is the cluster file of eight-a100: what the targets use where there is
// no cluster.yaml.
//
//go:embed eight-a100/cluster.yaml
var EightA100 []byte

// platform are the sections of a cluster file that say what runs on Kubernetes.
var platform = [...]string{"charts", "storage", "loadBalancer", "ingress", "tls", "rancher", "fleet", "monitoring", "backup", "hub"}

// WithoutPlatform returns a cluster file less what runs on Kubernetes: the machines
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
