package simcheck

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What was once asked of real Proxmox VE daemons, and what they answered.
const transcripts = "../../../shared/data/pve9-transcripts.jsonl"

// anonymous are the values in it that say nothing and need not be kept: tickets,
// and the names that the test daemons' passwords had.
var anonymous = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`PVE:([a-z0-9]+@[a-z]+):[0-9A-F]{8}::[A-Za-z0-9+/=]+`), "PVE:$1:00000000::TICKET"},
	{regexp.MustCompile(`"CSRFPreventionToken":"[^"]*"`), `"CSRFPreventionToken":"00000000:TOKEN"`},
	{regexp.MustCompile(`\\"CSRFPreventionToken\\":\\"[^"\\]*\\"`), `\"CSRFPreventionToken\":\"00000000:TOKEN\"`},
	{regexp.MustCompile(`oracle-(root|nobody)`), "password-of-$1"},
}

// TestRecordedIsWhatWasRecorded holds the embedded exchanges against the record.
func TestRecordedIsWhatWasRecorded(t *testing.T) {
	raw, err := os.ReadFile(transcripts)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("NOT CHECKED: %s is missing; recorded.jsonl.gz is taken as it is", transcripts)
	}
	require.NoError(t, err)
	var want bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		for _, a := range anonymous {
			line = a.pattern.ReplaceAllString(line, a.with)
		}
		var e exchange
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		want.Write(encoded(t, e))
		want.WriteByte('\n')
	}
	if *update {
		require.NoError(t, os.WriteFile("recorded.jsonl.gz", packed(t, want.Bytes()), 0o644))
		return
	}
	var got []byte
	require.NoError(t, unpack(recorded, func(r io.Reader) (err error) { got, err = io.ReadAll(r); return err }))
	assert.Equal(t, want.String(), string(got), "run go test ./internal/simcheck -run %s -update", t.Name())
}

func TestNothingInTheRecordIsSecret(t *testing.T) {
	exchanges, err := loadExchanges()
	require.NoError(t, err)
	require.Greater(t, len(exchanges), 300)
	for i, e := range exchanges {
		text := string(encoded(t, e))
		assert.NotRegexp(t, `::[A-Za-z0-9+/]{20}`, text, "#%d: a ticket", i)
		assert.False(t, strings.Contains(text, "PRIVATE KEY"), "#%d", i)
		assert.NotRegexp(t, `/(home|work|root|opt)/`, text, "#%d: a path of a workplace", i)
	}
}
