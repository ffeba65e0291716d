package proxmox_test

import (
	"context"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
)

// Proxmox reads an upload's form by position, and wants its length.
func TestUploadForm(t *testing.T) {
	const upid = "UPID:pve1:000003B2:00053DE3:6B007E44:imgcopy::homelab@pve!cluster:"
	var fields []string
	h := serve(t, map[string]http.HandlerFunc{
		"POST /nodes/pve1/storage/local/upload": func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength <= 0 || len(r.TransferEncoding) > 0 || r.Header.Get("Authorization") != "PVEAPIToken="+tokenID+"="+tokenSecret {
				raw(501, "no", "")(w, r)
				return
			}
			form, err := r.MultipartReader()
			for err == nil {
				var part *multipart.Part
				if part, err = form.NextPart(); err == nil {
					content, _ := io.ReadAll(part)
					fields = append(fields, part.FormName()+"="+string(content)+" "+part.FileName())
				}
			}
			data(upid)(w, r)
		},
		"GET /nodes/pve1/tasks": data([]any{map[string]any{"upid": upid, "status": "OK", "endtime": 1795194436}}),
	})
	id, err := h.dial(t).Storages.Upload(t.Context(), "pve1", "local", "a.iso", []byte("abc"))
	require.NoError(t, err)
	assert.Equal(t, "local:iso/a.iso", id)
	assert.Equal(t, []string{
		"content=iso ", "checksum-algorithm=sha256 ",
		"checksum=ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad ", "filename=abc a.iso",
	}, fields)
}

func TestUploadObeysContext(t *testing.T) {
	held := make(chan struct{})
	h := serve(t, map[string]http.HandlerFunc{"POST /nodes/pve1/storage/local/upload": func(http.ResponseWriter, *http.Request) { <-held }})
	defer close(held)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	c := h.dial(t)
	_, err := c.Storages.Upload(ctx, "pve1", "local", "a.iso", []byte("abc"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// go-proxmox writes a number in a query as 1.234567e+06, and refuses a quoted 1.
func TestNumbersAndSwitches(t *testing.T) {
	const path = " /nodes/pve1/qemu/100/agent/"
	var asked string
	tags := marked(1234567)["tags"]
	h := serve(t, map[string]http.HandlerFunc{
		"POST" + path + "exec": data(map[string]any{"pid": "1234567"}),
		"GET" + path + "exec-status": func(w http.ResponseWriter, r *http.Request) {
			asked = r.URL.Query().Get("pid")
			data(map[string]any{"exited": "1", "exitcode": "0", "out-data": "ok"})(w, r)
		},
		"GET /cluster/resources": data([]any{map[string]any{
			"type": "qemu", "vmid": "1234567", "name": "who had the VMID before", "node": "pve1", "status": "running", "tags": tags, "template": 0, "maxmem": 1, "maxcpu": 1,
		}}),
		"GET /nodes/pve1/qemu": data([]any{map[string]any{
			"vmid": "1234567", "name": "t", "status": "stopped", "tags": tags, "template": "1", "maxmem": 2147483648.0, "cpus": "2",
		}}),
	})
	c := h.dial(t)
	out, err := remote.Output(t.Context(), c.Agents.Runner(guestVM), "true")
	require.NoError(t, err)
	assert.Equal(t, "ok", string(out))
	assert.Equal(t, "1234567", asked)
	all, err := c.VMs.List(t.Context(), owner)
	require.NoError(t, err)
	assert.Equal(t, []proxmox.Summary{{Name: "t", VMID: 1234567, Host: "pve1", Template: true, Tags: strings.Split(tags, ";"), Cores: 2, Memory: 2 * proxmox.GiB}}, all)
}
