package unit

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// PCIAddress is the address of a device on a host: a whole device, or one function of it.
type PCIAddress struct {
	Domain   uint32
	Bus      uint8
	Slot     uint8
	Function int // -1: all functions
}

var pciSyntax = regexp.MustCompile(`^(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7*]))?$`)

// ParsePCIAddress reads 01:00, 01:00.0, 0000:01:00, 0000:01:00.0, 41:00.* and, as nvidia-smi
// writes it, 00000000:01:00.0, in upper or lower case. Without a function, or with *, it
// means all functions, as in Proxmox.
func ParsePCIAddress(s string) (PCIAddress, error) {
	m := pciSyntax.FindStringSubmatch(strings.ToLower(strings.TrimSpace(s)))
	if m == nil {
		return PCIAddress{}, fmt.Errorf("%q is not a PCI address", s)
	}
	// The expression allows only valid addresses, except for a device above 1f.
	domain, _ := strconv.ParseUint("0"+m[1], 16, 32)
	bus, _ := strconv.ParseUint(m[2], 16, 8)
	slot, _ := strconv.ParseUint(m[3], 16, 8)
	if slot > 0x1f {
		return PCIAddress{}, fmt.Errorf("%q is not a PCI address: device %s is beyond 1f", s, m[3])
	}
	a := PCIAddress{Domain: uint32(domain), Bus: uint8(bus), Slot: uint8(slot), Function: -1}
	if m[4] != "" && m[4] != "*" {
		a.Function = int(m[4][0] - '0')
	}
	return a, nil
}

// String returns the address as Proxmox writes it: 0000:01:00.0, or 0000:01:00 for all
// functions.
func (a PCIAddress) String() string {
	s := fmt.Sprintf("%04x:%02x:%02x", a.Domain, a.Bus, a.Slot)
	if a.Function >= 0 {
		s += "." + strconv.Itoa(a.Function)
	}
	return s
}

// Whole returns the device with all its functions.
func (a PCIAddress) Whole() PCIAddress { a.Function = -1; return a }

// First returns the address with function 0 for one that means all functions.
func (a PCIAddress) First() PCIAddress { a.Function = max(a.Function, 0); return a }

// Contains reports whether b is a or, when a is a whole device, one of its functions.
func (a PCIAddress) Contains(b PCIAddress) bool { return a == b || a == b.Whole() }

// Compare orders addresses.
func (a PCIAddress) Compare(b PCIAddress) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Bus, b.Bus), cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Function, b.Function))
}

// MarshalText implements encoding.TextMarshaler.
func (a PCIAddress) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *PCIAddress) UnmarshalText(b []byte) (err error) {
	*a, err = ParsePCIAddress(string(b))
	return err
}
