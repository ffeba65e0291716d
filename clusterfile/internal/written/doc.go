// Package written is cluster.yaml as it is written: a Go type for each section, the decoder
// that fills them, and the place of every field, so that a check can say where its
// problem is. What the sections mean, and what is wrong with them, is for
// [github.com/cps-gpu/homelab/clusterfile].
package written
