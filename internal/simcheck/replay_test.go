package simcheck

import (
	"bytes"
	"flag"
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
