package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
)

func TestParseUPID(t *testing.T) {
	const text = "UPID:pve1:000005AB:00054957:6B007E61:qmstop:400:root@pam!full:"
	u, err := api.ParseUPID(text)
	require.NoError(t, err)
	assert.Equal(t, api.UPID{
		Node: "pve1", PID: 1451, PStart: 346455, Started: time.Unix(1795194465, 0).UTC(), Type: "qmstop", ID: "400", User: "root@pam!full",
	}, u)
	assert.Equal(t, text, u.String())
	_, err = api.ParseUPID("UPID:pve1:0000045C:000540390:6B007E4A:imgcopy::k3s@pve!full:")
	require.NoError(t, err, "nine digits of process start, no id")
	for _, s := range []string{
		"", "UPID:x", "UPID::000005AB:00054957:6B007E61:qmstop:400:root@pam:", "UPID:pve1:5AB:00054957:6B007E61:qmstop:400:root@pam:",
		"UPID:pve1:000005AB:00054957:6B007E61:qmstop:400:root@pam", "UPID:p/1:000005AB:00054957:6B007E61:qmstop:400:root@pam:",
	} {
		_, err := api.ParseUPID(s)
		assert.ErrorContains(t, err, "task id", s)
	}
}

func FuzzParseUPID(f *testing.F) {
	f.Add("UPID:pve1:000005AB:00054957:6B007E61:qmstop:400:root@pam!full:")
	f.Add("UPID:pve1:0000045C:000540390:6B007E4A:imgcopy::k3s@pve:")
	f.Fuzz(func(t *testing.T, s string) {
		u, err := api.ParseUPID(s)
		if err != nil {
			return
		}
		// Hexadecimal digits may be written in either case, and with a leading zero.
		again, err := api.ParseUPID(u.String())
		require.NoError(t, err)
		assert.Equal(t, u, again)
	})
}
