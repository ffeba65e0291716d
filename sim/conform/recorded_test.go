package conform

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// anonymous are the values in it that say nothing and need not be kept: tickets,
// and the names that the test daemons' passwords had.
var anonymous = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`PVE:([a-z0-9]+@[a-z]+):[0-9A-F]{8}::[A-Za-z0-9+/=]+`), "PVE:$1:00000000::TICKET"},
	{regexp.MustCompile(`"CSRFPreventionToken":"[^"]*"`), `"CSRFPreventionToken":"00000000:TOKEN"`},
	{regexp.MustCompile(`\\"CSRFPreventionToken\\":\\"[^"\\]*\\"`), `\"CSRFPreventionToken\":\"00000000:TOKEN\"`},
	{regexp.MustCompile(`(password\W+)\w+-(root|nobody|k3s)\b`), "${1}password-of-$2"},
}

// TestRecordedIsWhatWasRecorded compares the embedded exchanges with the originals that -data
// names, in the order of recordingNames; -update takes them over.
func TestRecordedIsWhatWasRecorded(t *testing.T) {
	if *data == "" {
		return
	}
	for i, file := range strings.Split(*data, ",") {
		name := recordingNames()[i]
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, a := range anonymous {
			raw = a.pattern.ReplaceAll(raw, []byte(a.with))
		}
		had, err := parseExchanges(bytes.NewReader(raw))
		require.NoError(t, err)
		var want bytes.Buffer
		for _, e := range had {
			want.Write(encoded(t, e))
			want.WriteByte('\n')
		}
		if *update {
			require.NoError(t, os.WriteFile(name, packed(t, want.Bytes()), 0o644))
			continue
		}
		kept, err := recordings.ReadFile(name)
		require.NoError(t, err)
		var got []byte
		require.NoError(t, unpack(kept, func(r io.Reader) (err error) { got, err = io.ReadAll(r); return err }))
		assert.Equal(t, want.String(), string(got), "run go test ./sim/conform -run %s -update -data=…", t.Name())
	}
}

func TestNothingInTheRecordIsSecret(t *testing.T) {
	scenarios, err := Scenarios()
	require.NoError(t, err)
	total := 0
	for _, s := range scenarios {
		for i, e := range s.had {
			total++
			text := string(encoded(t, e))
			assert.NotRegexp(t, `::[A-Za-z0-9+/]{20}`, text, "%s #%d: a ticket", s, i)
			assert.False(t, strings.Contains(text, "PRIVATE KEY"), "%s #%d", s, i)
			assert.NotRegexp(t, `/(home|work|opt)/`, text, "%s #%d: a path of a workplace", s, i)
		}
	}
	assert.Greater(t, total, 2400)
}
