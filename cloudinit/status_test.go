package cloudinit

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	statusDone = `{
  "boot_status_code": "enabled-by-generator",
  "datasource": "nocloud",
  "detail": "DataSourceNoCloud [seed=/dev/sr0]",
  "errors": [],
  "extended_status": "done",
  "init": {"errors": [], "finished": 1.5, "recoverable_errors": {}, "start": 1.1},
  "last_update": "Thu, 01 Jan 1970 00:00:45 +0000",
  "recoverable_errors": {},
  "stage": null,
  "status": "done"
}`
	statusDegraded = `{"status": "done", "extended_status": "degraded done", "errors": [], "recoverable_errors":
{"WARNING": ["Failed at merging in cloud config part"], "DEPRECATED": ["old key"], "ERROR": ["no such mirror"]}}`
	statusFailed = `....
{"status": "error", "extended_status": "error - done", "errors": ["('scripts_user', RuntimeError('Runparts: 1 failures (runcmd) in 1 attempted commands'))"]}`
)

func TestParseStatus(t *testing.T) {
	s, err := ParseStatus([]byte(statusDone))
	require.NoError(t, err)
	assert.Equal(t, Done, s.State)
	assert.Equal(t, "DataSourceNoCloud [seed=/dev/sr0]", s.Detail)
	assert.NoError(t, s.Err())
	assert.Empty(t, s.Warnings())

	s, err = ParseStatus([]byte(statusDegraded))
	require.NoError(t, err)
	assert.NoError(t, s.Err(), "recovered errors are no failure")
	assert.Equal(t, []string{"ERROR: no such mirror", "WARNING: Failed at merging in cloud config part"}, s.Warnings())

	s, err = ParseStatus([]byte(statusFailed))
	require.NoError(t, err)
	var failed *FailedError
	require.ErrorAs(t, s.Err(), &failed)
	assert.Len(t, failed.Errors, 1)
	assert.ErrorContains(t, s.Err(), "runcmd")
	assert.ErrorContains(t, s.Err(), "/var/log/cloud-init-output.log")

	for _, state := range []State{NotStarted, Running} {
		s, err = ParseStatus([]byte(`{"status": "` + state + `"}`))
		require.NoError(t, err)
		assert.ErrorIs(t, s.Err(), ErrNotDone)
	}
	s, err = ParseStatus([]byte(`{"status": "disabled"}`))
	require.NoError(t, err)
	assert.ErrorContains(t, s.Err(), "disabled")
	s, err = ParseStatus([]byte(`{"status": "degraded done"}`))
	require.NoError(t, err)
	assert.NoError(t, s.Err())
}

func TestParseStatusRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                       `no JSON in ""`,
		"status: done":           "no JSON",
		`{"status": "sideways"}`: `unknown status "sideways"`,
		`{"status": "done"`:      "unexpected end",
		`{"status": 3}`:          "cannot unmarshal",
		`{"errors": []}`:         `unknown status ""`,
	} {
		_, err := ParseStatus([]byte(in))
		assert.ErrorContains(t, err, want, in)
	}
}

func FuzzParseStatus(f *testing.F) {
	for _, s := range []string{statusDone, statusDegraded, statusFailed, "", "{", `{"status": null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		s, err := ParseStatus(out)
		if err != nil {
			return
		}
		assert.Contains(t, []State{NotStarted, Running, Done, Failed, Disabled}, s.State)
		_ = s.Warnings()
		assert.Equal(t, s.State == Done, s.Err() == nil)
	})
}

func TestParseResult(t *testing.T) {
	s, err := ParseResult([]byte(`{"v1": {"datasource": "DataSourceNoCloud [seed=/dev/sr0]", "errors": []}}`))
	require.NoError(t, err)
	require.NoError(t, s.Err())
	assert.Equal(t, "DataSourceNoCloud [seed=/dev/sr0]", s.Datasource)
	s, err = ParseResult([]byte(`{"v1": {"datasource": null, "errors": ["('users_groups', KeyError('x'))"]}}`))
	require.NoError(t, err)
	require.ErrorContains(t, s.Err(), "cloud-init failed: ('users_groups', KeyError('x')): see ")
	_, err = ParseResult([]byte(`{"v1`))
	require.ErrorContains(t, err, ResultFile)
}

func TestFailedError(t *testing.T) {
	assert.EqualError(t, &FailedError{}, "cloud-init failed: no reason given: see /var/log/cloud-init-output.log and /var/log/cloud-init.log on the machine")
	assert.ErrorContains(t, &FailedError{Errors: []string{"a", "b"}}, "cloud-init failed: a; b: see")
	long := strings.Repeat("x", 80)
	assert.Equal(t, []string{long, long + "…"}, []string{shorten([]byte(long)), shorten([]byte(long + "y"))})
}
