package nodes

import (
	"strings"
	"testing"
)

func FuzzUPID(f *testing.F) {
	f.Add("UPID:pve1:0000052D:00054954:6B007E61:qmstart:400:root@pam!full:")
	f.Add("UPID:x")
	f.Fuzz(func(t *testing.T, s string) {
		if upidPattern.MatchString(s) && strings.Count(s, ":") != 8 {
			t.Errorf("%q is not a UPID", s)
		}
	})
}
