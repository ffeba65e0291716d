package proxmox_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
)

// A VM that no list names yet may be ours. Only one that we may not see is left out:
// whatever else keeps us from looking is an error, not an answer.
func TestWhatCannotBeReadIsNotLeftOut(t *testing.T) {
	for what, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"may not see":     {raw(403, "Permission check failed (/vms/109, VM.Audit)", ""), ""},
		"destroyed since": {raw(500, "Configuration file 'nodes/pve1/qemu-server/109.conf' does not exist", ""), ""},
		"broken":          {raw(500, "close (rename) atomic file failed: No space left on device", ""), "No space left on device"},
	} {
		t.Run(what, func(t *testing.T) {
			vm := map[string]any{"type": "qemu", "vmid": 109, "node": "pve1", "status": "unknown", "name": "VM 109", "id": "qemu/109"}
			c := serve(t, map[string]http.HandlerFunc{
				"GET /cluster/resources":           data([]any{vm, map[string]any{"type": "node", "node": "pve1", "status": "online", "id": "node/pve1"}}),
				"GET /nodes/pve1/qemu":             data([]any{vm}),
				"GET /nodes/pve1/qemu/109/pending": tt.answer,
			}).dial(t)
			all, errs := c.VMs.List(t.Context(), "homelab-x")
			one, err := c.VMs.Get(t.Context(), "homelab-x", "wk1")
			if tt.want == "" {
				require.NoError(t, errs)
				require.NoError(t, err)
				assert.Empty(t, all)
				assert.Nil(t, one)
				return
			}
			var e *api.Error
			require.ErrorAs(t, errs, &e)
			assert.ErrorContains(t, errs, tt.want)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}
