package jupyterhub

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bytes is an amount of memory or disk. It prints as Kubernetes writes it: 20Gi.
type Bytes int64

// The units, in powers of 1024.
const (
	KiB = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

// String returns the amount as Kubernetes writes it.
func (b Bytes) String() string {
	return resource.NewQuantity(int64(b), resource.BinarySI).String()
}

// spawner returns the amount in JupyterHub's format: its K, M, G and T are powers of 1024. It
// refuses a string without a unit, and a plain number in YAML could turn into a float
// (jupyterhub/traitlets.py, ByteSpecification).
func (b Bytes) spawner() string {
	switch {
	case b%TiB == 0:
		return strconv.FormatInt(int64(b/TiB), 10) + "T"
	case b%GiB == 0:
		return strconv.FormatInt(int64(b/GiB), 10) + "G"
	case b%MiB == 0:
		return strconv.FormatInt(int64(b/MiB), 10) + "M"
	}
	return strconv.FormatInt(int64((b+KiB-1)/KiB), 10) + "K"
}
