package spec

import (
	"fmt"
	"strconv"
)

// ASN is the number of an autonomous system of BGP, 1 to 4294967295 (RFC 6793).
type ASN uint32

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *ASN) UnmarshalText(b []byte) error {
	n, err := strconv.ParseUint(string(b), 10, 32)
	if err != nil || n == 0 {
		return fmt.Errorf("%q cannot be the number of an autonomous system", b)
	}
	*a = ASN(n)
	return nil
}
