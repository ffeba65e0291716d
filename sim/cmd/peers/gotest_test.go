package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// othersTests are a package of somebody else's: each kind of end, and one that takes the
// process along.
const othersTests = `package others

import (
	"os"
	"testing"
)

func TestGood(t *testing.T)    { t.Log("in", os.Getenv("WHERE")); t.Run("part", func(*testing.T) {}) }
func TestBad(t *testing.T)     { t.Run("part", func(t *testing.T) { t.Error("so it goes") }) }
func TestLeft(t *testing.T)    { t.Skip() }
func TestBroken(t *testing.T)  { panic("over") }
`

func TestEachTestEndsAlone(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module others\n\ngo 1.26\n", "others_test.go": othersTests, "empty/empty.go": "package empty\n"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	s := suite{packages: []string{"./..."}, apart: true}
	binaries, err := s.compile(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, binaries, 1, "a package without tests is none")
	jobs, err := s.jobs(t.Context(), binaries)
	require.NoError(t, err)
	b := &board{log: t.Output(), got: map[string]outcome{}}
	for _, j := range jobs {
		require.NoError(t, s.work(t.Context(), j, []string{"WHERE=here"}, b))
	}
	ends := map[string]string{}
	for name, o := range b.got {
		ends[name] = o.action
	}
	assert.Equal(t, map[string]string{"TestGood": "pass", "TestBad": "fail", "TestLeft": "skip", "TestBroken": "fail"}, ends)
	assert.Contains(t, b.got["TestBroken"].output, "panic: over [recovered, repanicked]\n")
	assert.Contains(t, b.got["TestGood"].output, "    others_test.go:8: in here\n")
}

func TestASuiteIsNamedByItsBeginning(t *testing.T) {
	assert.NoError(t, checkPrefix(""))
	assert.NoError(t, checkPrefix("bpg"))
	assert.EqualError(t, checkPrefix("bgp"), "-only=bgp: there are the suites bpg/proxmox, bpg/proxmox beyond machines, bpg/proxmox on two hosts, go-proxmox")
}
