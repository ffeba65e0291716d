package decode

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// Values of the file that are text with a syntax of their own.

// A Cure is an error that knows what to write instead.
type Cure struct{ what, instead string }

func (c Cure) Error() string   { return c.what }
func (c Cure) Instead() string { return c.instead }

// TokenID is user@realm!name.
type TokenID string

var TokenSyntax = regexp.MustCompile(`^[^\s@!=:/]+@[A-Za-z][A-Za-z0-9._-]*![A-Za-z][A-Za-z0-9._-]*$`)

// UnmarshalText implements encoding.TextUnmarshaler. Its errors never repeat b, because users
// may paste the whole token with its secret.
func (t *TokenID) UnmarshalText(b []byte) error {
	s := string(b)
	switch {
	case TokenSyntax.MatchString(s):
		*t = TokenID(s)
		return nil
	case strings.Contains(s, "="):
		return Cure{"token holds more than the token's ID, maybe the secret itself", "keep user@realm!name here, and write secret: env:NAME or secret: file:PATH beside it"}
	default:
		return Cure{"token is not the ID of an API token", "write user@realm!name, e.g. homelab@pve!cluster"}
	}
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

// InRange is one value of a range, and the index of the range.
type InRange[T any] struct {
	Value T
	From  int
}

// Addresses lists the first n addresses of ranges, or none if a range has no value that could be read.
func Addresses(ranges []spec.AddressRange, n int) []InRange[netip.Addr] {
	var out []InRange[netip.Addr]
	for i, r := range ranges {
		if !r.From.IsValid() {
			return nil
		}
		for a := r.From; a.IsValid() && !r.To.Less(a) && len(out) < n; a = a.Next() {
			out = append(out, InRange[netip.Addr]{a, i})
		}
	}
	return out
}

// VMIDs is Addresses for VMIDs.
func VMIDs(ranges []VMIDRange, n int) []InRange[int] {
	var out []InRange[int]
	for i, r := range ranges {
		if r.From == 0 {
			return nil
		}
		for id := r.From; id <= r.To && len(out) < n; id++ {
			out = append(out, InRange[int]{id, i})
		}
	}
	return out
}

// BootOrder is Proxmox's own syntax, order=1,up=30,down=120; the numbers are seconds.
type BootOrder spec.Startup

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *BootOrder) UnmarshalText(b []byte) error {
	var out BootOrder
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

// KeyPath is the path of a private key.
type KeyPath string

// UnmarshalText implements encoding.TextUnmarshaler. Its error does not repeat b.
func (p *KeyPath) UnmarshalText(b []byte) error {
	if s := string(b); strings.ContainsAny(s, "\r\n") || strings.Contains(s, "PRIVATE KEY") {
		return Cure{"privateKey holds a key itself", "save it to a file with mode 0600 and write the file's path"}
	}
	*p = KeyPath(b)
	return nil
}

// PublicKey is an authorized_keys line, or the path of a file of them.
type PublicKey string

// UnmarshalText implements encoding.TextUnmarshaler. Its error does not repeat b.
func (k *PublicKey) UnmarshalText(b []byte) error {
	if strings.Contains(string(b), "PRIVATE KEY") {
		return Cure{"publicKeys holds a private key", "write the contents of the .pub file beside it, or that file's path"}
	}
	*k = PublicKey(strings.TrimSpace(string(b)))
	return nil
}

var (
	DNSLabel   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	dnsPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
)

func IsDNSName(s string) bool { return len(s) <= 253 && dnsPattern.MatchString(s) }

// CutLast splits s at the last sep; without one, before is s.
func CutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
