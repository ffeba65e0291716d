package spec

import (
	"crypto/sha256"
	"fmt"
	"net"
)

// MAC is an Ethernet address. It prints in lower case, as netplan wants it.
type MAC [6]byte

// ParseMAC reads six bytes in hex with colons or hyphens. Multicast addresses are refused.
func ParseMAC(s string) (MAC, error) {
	hw, err := net.ParseMAC(s)
	if err != nil || len(hw) != 6 {
		return MAC{}, fmt.Errorf("%q is not a MAC address", s)
	}
	m := MAC(hw)
	if m[0]&1 != 0 {
		return MAC{}, fmt.Errorf("%q is a multicast address, which no interface can have", s)
	}
	if m == (MAC{}) {
		return MAC{}, fmt.Errorf("%q is not an address that an interface can have", s)
	}
	return m, nil
}

// StableMAC returns the default address of a node: locally administered, and always the same
// for the same names of cluster and node. It has five hashed bytes: with the three behind
// Proxmox's own prefix, one of thirty clusters with a thousand nodes would have a collision.
func StableMAC(cluster, node string) MAC {
	sum := sha256.Sum256([]byte("mac\x00" + cluster + "\x00" + node))
	m := MAC(sum[:6])
	m[0] = 0x02
	return m
}

// String returns e.g. 02:1f:88:0a:9e:31.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// MarshalText implements encoding.TextMarshaler.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *MAC) UnmarshalText(b []byte) error {
	var err error
	*m, err = ParseMAC(string(b))
	return err
}
