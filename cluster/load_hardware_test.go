package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCPUList(t *testing.T) {
	for text, want := range map[string][]int{"0": {0}, "0-2": {0, 1, 2}, "0-1,4": {0, 1, 4}} {
		got, ok := cpuList(text, ",")
		assert.True(t, ok)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "-", "a", "2-1", "0,", "1-", "-1", "0-5000", "0;1"} {
		_, ok := cpuList(text, ",")
		assert.False(t, ok, text)
	}
}

func FuzzCPUList(f *testing.F) {
	f.Add("0-7,16-23")
	f.Add("9-,")
	f.Fuzz(func(t *testing.T, s string) {
		all, ok := cpuList(s, ",")
		if ok != (len(all) > 0) {
			t.Errorf("%q: %v of %d CPUs", s, ok, len(all))
		}
	})
}

func TestParseDisks(t *testing.T) {
	got, err := parseDisks("a absent\nb present ext4 here kept grown\nc present - /dev/sdx lost small\nd present - - lost grown\n")
	assert.NoError(t, err)
	assert.Equal(t, map[string]diskSeen{
		"a": {}, "b": {present: true, fs: "ext4", at: "here", kept: true}, "c": {present: true, at: "/dev/sdx", small: true}, "d": {present: true},
	}, got)
	_, err = parseDisks("b present ext4\n")
	assert.EqualError(t, err, `disks of a machine: "b present ext4" is not understood`)
}

func FuzzParseDisks(f *testing.F) {
	f.Add("b present ext4 here kept grown\n")
	f.Fuzz(func(t *testing.T, s string) {
		if all, err := parseDisks(s); err == nil && len(all) == 0 && len(s) > 0 {
			t.Errorf("%q is something", s)
		}
	})
}

func TestOSID(t *testing.T) {
	assert.Equal(t, "ubuntu", osID("NAME=Ubuntu\nID=ubuntu\nID_LIKE=debian\n"))
	assert.Equal(t, "rocky", osID("ID=\"rocky\"\n"))
	assert.Equal(t, "", osID("NAME=x\n"))
}
