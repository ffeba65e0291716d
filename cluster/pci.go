package cluster

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// PCIAddress is where a device sits on a host: a whole device, or one function of it.
type PCIAddress struct {
	Domain   uint16
	Bus      uint8
	Device   uint8
	Function int8 // -1: all functions
}

var pciSyntax = regexp.MustCompile(`^(?:0{0,4}([0-9a-f]{1,4}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?$`)

// ParsePCIAddress reads 01:00, 01:00.0, 0000:01:00, 0000:01:00.0 and, as nvidia-smi
// writes it, 00000000:01:00.0, in upper or lower case. Without a function it means all functions, as in Proxmox.
func ParsePCIAddress(s string) (PCIAddress, error) {
	m := pciSyntax.FindStringSubmatch(strings.ToLower(s))
	if m == nil {
		return PCIAddress{}, fmt.Errorf("%q is not a PCI address", s)
	}
	hex := func(t string) uint64 {
		v, _ := strconv.ParseUint("0"+t, 16, 16) // the expression allows four digits at most
		return v
	}
	device := hex(m[3])
	if device > 0x1f {
		return PCIAddress{}, fmt.Errorf("%q is not a PCI address: device %s is beyond 1f", s, m[3])
	}
	a := PCIAddress{Domain: uint16(hex(m[1])), Bus: uint8(hex(m[2])), Device: uint8(device), Function: -1}
	if m[4] != "" {
		a.Function = int8(hex(m[4]))
	}
	return a, nil
}

// Whole returns the device with all its functions.
func (a PCIAddress) Whole() PCIAddress { a.Function = -1; return a }

// First returns the address with function 0 in the place of all functions.
func (a PCIAddress) First() PCIAddress { a.Function = max(a.Function, 0); return a }

// String returns the address as Proxmox writes it: 0000:01:00, or 0000:01:00.0.
func (a PCIAddress) String() string {
	s := fmt.Sprintf("%04x:%02x:%02x", a.Domain, a.Bus, a.Device)
	if a.Function >= 0 {
		s += "." + strconv.Itoa(int(a.Function))
	}
	return s
}

// MarshalText implements encoding.TextMarshaler.
func (a PCIAddress) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *PCIAddress) UnmarshalText(b []byte) error {
	v, err := ParsePCIAddress(string(b))
	if err != nil {
		return err
	}
	*a = v
	return nil
}
