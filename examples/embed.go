// Package examples holds cluster files to begin with, and in the folders below it
// small programs that use one package each.
package examples

import _ "embed"

// EightA100 is the cluster file of eight-a100: what the targets use where there is
// no cluster.yaml.
//
//go:embed eight-a100/cluster.yaml
var EightA100 []byte
