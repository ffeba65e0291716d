package proxmox_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
)

// A null task id makes go-proxmox return a nil task, and waiting on it panics. It
// says nothing about the work, so the VM is looked at.
func TestNullTaskID(t *testing.T) {
	var running atomic.Bool
	const start = "POST /nodes/pve1/qemu/100/status/start"
	h := serve(t, map[string]http.HandlerFunc{
		start:                   func(w http.ResponseWriter, r *http.Request) { running.Store(true); data(nil)(w, r) },
		"GET /nodes/pve1/tasks": data([]any{}),
		"GET /nodes/pve1/qemu/100/status/current": func(w http.ResponseWriter, r *http.Request) {
			data(map[string]any{"status": map[bool]string{true: "running", false: "stopped"}[running.Load()]})(w, r)
		},
	})
	vm := &proxmox.VM{Name: "a", Host: "pve1", VMID: 100}
	require.NoError(t, h.dial(t).VMs.Start(t.Context(), vm))
	assert.True(t, vm.Running)
	assert.Equal(t, 1, h.Count(start))
}

// go-proxmox's waits sleep on without looking at the context.
func TestCancelIsPrompt(t *testing.T) {
	const upid = "UPID:pve1:000000F8:00052D55:6B007E1A:qmstart:100:homelab@pve!cluster:"
	h := serve(t, map[string]http.HandlerFunc{
		"POST /nodes/pve1/qemu/100/status/start": data(upid),
		"GET /nodes/pve1/tasks":                  data([]any{map[string]any{"upid": upid, "id": "100", "type": "qmstart", "starttime": 1}}),
	})
	cfg := proxmox.Config(h.Config())
	cfg.Poll = time.Hour
	c, err := proxmox.Dial(t.Context(), cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.VMs.Start(ctx, &proxmox.VM{Name: "a", Host: "pve1", VMID: 100}) }()
	require.Eventually(t, func() bool { return h.Count("GET /nodes/pve1/tasks") > 0 }, 5*time.Second, 5*time.Millisecond)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}
