package backup

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/cps-gpu/homelab/k3s"
)

// Anyone who has a recipient's public key can make a backup, so nothing in one is believed: not its
// names, and not that it stays as small as it comes.
const (
	// largest is how large etcd lets its database become at most (8 GiB, "Storage size limit" in
	// its documentation).
	largest = 8 << 30
	// floor may be unpacked of any file.
	floor = 64 << 20
	// shrinks is how many times as large a file may be unpacked as packed: databases of etcd
	// shrink by 3 to 30 times, and deflate by 1,032 at most.
	shrinks = 100
	// shrunk is the same for what is compressed already.
	shrunk = 2

	zipped = ".zip" // ends the name of a snapshot that K3s has compressed
)

var (
	errLargest = errors.New("it is larger than a database of etcd may be (8 GiB)")
	errSwells  = errors.New("it is far larger unpacked than a database of etcd could be")
)

// maxUnpacked is how much may be unpacked of packed bytes.
func maxUnpacked(packed int64, ratio int64) int64 {
	if ratio == shrunk {
		return 1<<20 + packed*ratio
	}
	return floor + packed*ratio
}

// counter counts what was read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// limitedReader ends a stream that swells.
type limitedReader struct {
	r      io.Reader
	n      int64
	sealed *counter
	ratio  int64
}

func (b *limitedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.n += int64(n); b.n > maxUnpacked(b.sealed.n, b.ratio) {
		return 0, errSwells
	}
	return n, err
}

// check says what of a manifest is none that homelab writes.
func (m Manifest) check() error {
	if err := k3s.CheckSnapshotName(m.Snapshot); err != nil {
		return err
	}
	if sum, err := hex.DecodeString(m.SHA256); err != nil || len(sum) != 32 {
		return fmt.Errorf("%q is not a digest", shorten(m.SHA256))
	}
	if m.Size < 0 || m.Size > largest {
		return errLargest
	}
	if m.Version() != m.K3s+m.Kubeadm+m.Talos {
		return errors.New("it is of several distributions")
	}
	for _, name := range slices.Concat([]string{m.Cluster, m.K3s, m.Kubeadm, m.Talos, m.Server}, m.Servers, m.Agents) {
		if len(name) > 253 || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
			return fmt.Errorf("%q is not a name of a cluster, a machine or a version", shorten(name))
		}
	}
	return nil
}

// shorten is the beginning of a text that may be long.
func shorten(s string) string {
	const most = 60
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
