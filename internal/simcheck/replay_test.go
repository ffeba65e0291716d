package simcheck

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

var table = flag.Bool("table", false, "print what differs and why, as sim:conform does")

func TestConform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := Replay(t.Context())
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, c.Print(&b))
		if *table {
			_, err = b.WriteTo(os.Stdout)
			require.NoError(t, err)
		} else {
			t.Log("\n" + b.String())
		}
		require.NoError(t, c.Err())
	})
}

func TestAnswersHaveTheSchemasKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := Answers(t.Context())
		require.NoError(t, err)
		if line := fmt.Sprintf("%d methods read as root; the answers of %d have the keys that the schema describes.\n", a.Methods, a.Compared); *table {
			_, err = os.Stdout.WriteString("\n" + line)
			require.NoError(t, err)
		}
		require.Greater(t, a.Compared, 60)
		require.NoError(t, a.Err())
	})
}
