// Package written has cluster.yaml as it is written: a Go type for each section, the decoder
// that fills them, and the place of every field for messages.
// [github.com/cps-gpu/homelab/cluster/clusterfile] interprets and checks the sections.
package decode
