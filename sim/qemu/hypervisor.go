package qemu

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// Options configure the guests.
type Options struct {
	Image Image // the contents of every imported image
	// Network is the guests', e.g. 10.0.0.0/24, and Gateway an address of it that no guest
	// has. There is nothing behind it, unless the LAN has something there.
	Network netip.Prefix
	Gateway netip.Addr
	Dir     string // folder of disks and logs

	LAN LAN  // the guests' network; nil: each is alone, and reachable through forwarded ports
	KVM bool // instead of emulation: see [KVM]
}

// LAN is what connects guests: one network for their first cards, whatever bridge and VLAN those
// have, and one for each bridge and VLAN of their further cards.
type LAN interface {
	// Plug takes the other end of a network card's cable and returns at once. Network is the
	// card's, empty for that of first cards. Frames come and go over it as QEMU's netdev socket
	// writes them: four bytes of length, high ones first, and the frame. The end of conn is that
	// of the machine.
	Plug(conn net.Conn, network string)
	// Dial connects to an address in it.
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// Hypervisor runs guests. It is safe for concurrent use.
type Hypervisor struct {
	o    Options
	base *layer

	mu    sync.Mutex
	count int
}

// New returns a hypervisor, or an error where its image cannot be read.
func New(o Options) (*Hypervisor, error) {
	info, err := os.Stat(o.Image.Disk)
	if err != nil {
		return nil, err
	}
	if !o.Network.Contains(o.Gateway) {
		return nil, fmt.Errorf("the gateway %s is not in the guests' network %s", o.Gateway, o.Network)
	}
	return &Hypervisor{o: o, base: &layer{path: o.Image.Disk, format: "raw", size: info.Size(), made: true}}, nil
}

// magic follows the header in the placeholder file of the image.
const magic = "stands for a real Debian 13\n"

// ImageFile is what a simulated host downloads and imports instead of the image: a qcow2
// header with the size of its disk, and nothing in it. This avoids copying gigabytes.
func (h *Hypervisor) ImageFile() []byte {
	b := append([]byte("QFI\xfb"), make([]byte, 100)...)
	binary.BigEndian.PutUint32(b[4:], 3)
	binary.BigEndian.PutUint64(b[24:], uint64(h.base.size))
	return append(b, magic...)
}

// Open recognizes the image by its placeholder from ImageFile.
func (h *Hypervisor) Open(file []byte) (pvesim.Disk, error) {
	if !bytes.HasSuffix(file, []byte(magic)) {
		return nil, errors.New("qemu: not a disk image that has a real one")
	}
	return &disk{h: h, top: h.layer(h.base)}, nil
}

// Blank returns an empty disk.
func (h *Hypervisor) Blank() pvesim.Disk { return &disk{h: h, top: h.layer(nil)} }

// Plug assembles a machine.
func (h *Hypervisor) Plug(b pvesim.Board) pvesim.Guest { return &machine{h: h, board: b} }

// layer returns an empty layer over another. Its file is created when a machine needs it.
func (h *Hypervisor) layer(below *layer) *layer {
	return &layer{path: filepath.Join(h.o.Dir, fmt.Sprintf("disk-%d.qcow2", h.number())), format: "qcow2", below: below}
}

func (h *Hypervisor) number() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
	return h.count
}

// Consoles returns the last lines of what each guest that was ever started has said on
// its serial console, for a report of what went wrong.
func (h *Hypervisor) Consoles(lines int) string {
	var out strings.Builder
	files, _ := filepath.Glob(filepath.Join(h.o.Dir, "*.console"))
	for _, name := range files {
		b, _ := os.ReadFile(name)
		all := strings.Split(strings.TrimSpace(string(b)), "\n")
		fmt.Fprintf(&out, "%s:\n%s\n", filepath.Base(name), strings.Join(all[max(0, len(all)-lines):], "\n"))
	}
	return out.String()
}
