package conform

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Addresses of cards are random, in capitals and as a guest's configuration has them; which of
// the two it is, is compared.
func TestRandomMACs(t *testing.T) {
	x, err := loadExcuses()
	require.NoError(t, err)
	plain := func(s string) string { return x.plain(exchange{}, s) }
	require.Equal(t, plain("mac_address: 'bc:24:11:aa:00:09'"), plain("mac_address: 'bc:24:11:0b:c0:1a'"))
	require.Equal(t, plain("virtio=BC:24:11:AA:00:09"), plain("virtio=BC:24:11:0B:C0:1A"))
	require.NotEqual(t, plain("bc:24:11:aa:00:09"), plain("BC:24:11:AA:00:09"))
}
