package machine_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/talos/internal/machine"
)

// device reads as qemu-ga reads /dev/kmsg: the first count bytes, if there are that many.
func device(log string, asked *int) func(context.Context, int) ([]byte, error) {
	return func(_ context.Context, count int) ([]byte, error) {
		*asked++
		if count > len(log) {
			return nil, proxmox.ErrShort
		}
		return []byte(log[:count]), nil
	}
}

func said(key string) string {
	return fmt.Sprintf(`4,812,9034112,-;[talos] server certificate issued {"component": "controller-runtime", "controller": "runtime.MaintenanceServiceInformController", "fingerprint": "%s"}`, key)
}

func key(b byte) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(b)), 32)))
}

// TestFingerprint: the last key of a log of any length is found, in few requests.
func TestFingerprint(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 5))
		lines := func(most int) string {
			var out strings.Builder
			for i := range r.IntN(most) {
				fmt.Fprintf(&out, "6,%d,%d,-;%s\n", i, i*100, strings.Repeat("x", r.IntN(200)))
			}
			return out.String()
		}
		log := lines(4000) + said(key('a')) + "\n" + lines(20) + said(key('b')) + "\n" + lines(3)
		asked := 0
		got, err := machine.Fingerprint(t.Context(), device(log, &asked))
		require.NoError(t, err, seed)
		assert.Equal(t, strings.Repeat("b", 32), string(got), seed)
		assert.Less(t, asked, 40, seed)
	}
}

// TestNoKey: nothing that is not the record itself is taken for it.
func TestNoKey(t *testing.T) {
	for name, log := range map[string]string{
		"empty":          "",
		"short":          "6,1,2,-;Linux version 6.18.9-talos\n",
		"half a record":  strings.TrimSuffix(said(key('a')), `="}`),
		"not ended":      said(key('a')),
		"within a text":  `6,1,2,-;[talos] DHCP name {"hostname": "` + said(key('a')) + `"}` + "\n",
		"another's text": `6,1,2,-;usb 1-1: Product: [talos] server certificate issued {"fingerprint": "` + key('a') + `"}` + "\n",
		"a continuation": "6,1,2,-;usb\n SUBSYSTEM=usb [talos] server certificate issued {\"fingerprint\": \"" + key('a') + "\"}\n",
		"not base64":     said("abc") + "\n",
	} {
		asked := 0
		_, err := machine.Fingerprint(t.Context(), device(log, &asked))
		assert.ErrorIs(t, err, machine.ErrNoKey, name)
	}
}

func TestFingerprintFails(t *testing.T) {
	_, err := machine.Fingerprint(t.Context(), func(context.Context, int) ([]byte, error) { return nil, proxmox.ErrAgentNotRunning })
	require.ErrorIs(t, err, proxmox.ErrAgentNotRunning)
	_, err = machine.Fingerprint(t.Context(), func(_ context.Context, n int) ([]byte, error) { return make([]byte, n/2), nil })
	require.ErrorContains(t, err, "were asked for")
}

// cut is a record's head and its text.
func cut(record string) (head, text string, ok bool) { return strings.Cut(record, ";") }

func encode(key []byte) string { return base64.StdEncoding.EncodeToString(key) }
