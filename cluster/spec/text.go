package spec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// FileMode is an octal mode.
type FileMode uint32

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *FileMode) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(strings.TrimPrefix(string(b), "0o"), 8, 12)
	if err != nil || len(b) < 3 {
		return fmt.Errorf("%q is not a file mode", b)
	}
	*m = FileMode(v)
	return nil
}

// String returns e.g. 0644.
func (m FileMode) String() string { return fmt.Sprintf("%04o", uint32(m)) }

// MarshalText implements encoding.TextMarshaler.
func (m FileMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads Proxmox's own syntax, order=1,up=30,down=120; the numbers are seconds.
func (s *Startup) UnmarshalText(b []byte) error {
	var out Startup
	for part := range strings.SplitSeq(string(b), ",") {
		key, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseUint(value, 10, 16)
		if err != nil || n == 0 { // 0 means not set: Proxmox neither waits nor orders
			return fmt.Errorf("%q is not a place in the boot order", b)
		}
		switch key {
		case "order":
			out.Order = int(n)
		case "up":
			out.Up = time.Duration(n) * time.Second
		case "down":
			out.Down = time.Duration(n) * time.Second
		default:
			return fmt.Errorf("%q is not a place in the boot order", b)
		}
	}
	*s = out
	return nil
}

// VMIDRange is one VMID, or all from the first to the last.
type VMIDRange struct{ From, To int }

// VMIDs that Proxmox allows.
const (
	MinVMID = 100
	MaxVMID = 999999999
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *VMIDRange) UnmarshalText(b []byte) error {
	first, last, isRange := strings.Cut(string(b), "-")
	if !isRange {
		last = first
	}
	from, err1 := strconv.Atoi(strings.TrimSpace(first))
	to, err2 := strconv.Atoi(strings.TrimSpace(last))
	if errors.Join(err1, err2) != nil || to < from || from < MinVMID || to > MaxVMID {
		return fmt.Errorf("%q is not a VMID or a range of them", b)
	}
	*r = VMIDRange{from, to}
	return nil
}

// String returns 201, or 201-204.
func (r VMIDRange) String() string {
	if r.From == r.To {
		return strconv.Itoa(r.From)
	}
	return fmt.Sprintf("%d-%d", r.From, r.To)
}

// String returns order=1,up=30,down=120, without what is not set.
func (s Startup) String() string {
	var out []string
	for _, p := range []struct {
		key string
		n   int
	}{{"order", s.Order}, {"up", int(s.Up / time.Second)}, {"down", int(s.Down / time.Second)}} {
		if p.n != 0 {
			out = append(out, fmt.Sprintf("%s=%d", p.key, p.n))
		}
	}
	return strings.Join(out, ",")
}
