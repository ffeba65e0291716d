package nodes

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParseDisks(t *testing.T) {
	got, err := parseDisks("a absent\nb present ext4 here kept grown\nc present - /dev/sdx lost small\nd present - - lost grown\n")
	assert.NoError(t, err)
	assert.Equal(t, map[string]diskState{
		"a": {}, "b": {present: true, fs: "ext4", at: "here", kept: true}, "c": {present: true, at: "/dev/sdx", small: true}, "d": {present: true},
	}, got)
	_, err = parseDisks("b present ext4\n")
	assert.EqualError(t, err, `disks of a machine: unexpected line "b present ext4"`)
}

func FuzzParseDisks(f *testing.F) {
	f.Add("b present ext4 here kept grown\n")
	f.Fuzz(func(t *testing.T, s string) {
		if all, err := parseDisks(s); err == nil && len(all) == 0 && len(s) > 0 {
			t.Errorf("%q is something", s)
		}
	})
}

// What the script says of disks is read, and nothing else.
func TestDisksThatAreSaid(t *testing.T) {
	for in, want := range map[string]map[string]diskState{
		"a absent": {"a": {}}, "a present ext4 /a kept small\nb present - - no ok": {"a": {present: true, fs: "ext4", at: "/a", kept: true, small: true}, "b": {present: true}}, "a here": nil, "a present ext4": nil, "a b c d e f": nil, "a absent x": nil,
	} {
		got, err := parseDisks(in)
		assert.Equal(t, want != nil, err == nil, in)
		assert.Equal(t, want, got, in)
	}
}
