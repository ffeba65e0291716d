package conform

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

var (
	table = flag.String("table", "", "file for what differs and why, as sim:conform prints it")
	data  = flag.String("data", "", "recordings instead of our own: files, with commas between")
	show  = flag.String("show", "", "print every exchange of the scenarios that this pattern matches")
)

// conform replays recordings: all of our own without files.
func conform(t *testing.T, show string, log *bytes.Buffer, files ...string) *Conformance {
	scenarios, err := Scenarios(files...)
	require.NoError(t, err)
	r, err := NewReplays(show, log)
	require.NoError(t, err)
	for _, s := range scenarios {
		synctest.Test(t, func(t *testing.T) { require.NoError(t, r.Replay(t.Context(), s)) })
	}
	return r.Result()
}

func TestConform(t *testing.T) {
	var files []string
	if *data != "" {
		files = strings.Split(*data, ",")
	}
	var b bytes.Buffer
	c := conform(t, *show, &b, files...)
	require.NoError(t, c.Print(&b))
	if *table != "" {
		require.NoError(t, os.WriteFile(*table, b.Bytes(), 0o644))
	}
	if files == nil {
		require.NoError(t, c.Err())
	}
}

func TestAnswersHaveTheSchemasKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := Answers(t.Context())
		require.NoError(t, err)
		t.Logf("%d methods read as root; the answers of %d have the keys that the schema describes.", a.Methods, a.Compared)
		require.Greater(t, a.Compared, 60)
		require.NoError(t, a.Err())
	})
}
