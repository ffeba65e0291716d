package clusterfile

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

func TestSmallValues(t *testing.T) {
	for in, want := range map[string]bool{"/": false, "/a": true, "/a/": false, "a": false, "/a//b": false, "/a/./b": false, "/a/../b": false, "/a/..": false, "/a/.": false, "//": false, "/a..b": true, "": false} {
		assert.Equal(t, want, decode.IsCleanPath(in), in)
	}
	for in, want := range map[string]bool{"/a /a": true, "/a/b /a": true, "/ab /a": false, " /a": false, "/a/b /": true, "/a /a/b": false, "/a/b /a/": true} {
		path, mount, _ := strings.Cut(in, " ")
		assert.Equal(t, want, spec.IsWithin(path, mount), in)
	}
	for in, want := range map[string]int{"0": 1, "0-3": 4, "0-1,5": 3, "3-3": 1, "3-2": -1, "-1": -1, "a": -1, "1-b": -1, "4095": 1, "4096": -1, "": -1, "0-4095": 4096, "0-4095,0": -1} {
		all, ok := decode.CPUList(in, ",")
		assert.Equal(t, want >= 0, ok, in)
		if ok {
			assert.Len(t, all, want, in)
		}
	}
	for in, want := range map[string]string{"10.0.0.0/24": "10.0.0.255", "10.0.0.0/23": "10.0.1.255", "10.0.0.128/25": "10.0.0.255", "10.0.0.4/30": "10.0.0.7", "10.0.0.1/32": "10.0.0.1", "fd00::/64": "fd00::ffff:ffff:ffff:ffff"} {
		assert.Equal(t, want, spec.LastAddr(netip.MustParsePrefix(in)).String())
	}
	for in, want := range map[string]bool{"1": true, "65535": true, "65536": false, "0": false, "-1": false, "x": false, "": false} {
		assert.Equal(t, want, decode.IsPort(in), in)
	}
}
