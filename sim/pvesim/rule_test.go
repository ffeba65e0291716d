package pvesim

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	proxmox "github.com/luthermonson/go-proxmox"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// library runs a test with the real go-proxmox client.
func library(t *testing.T, f func(t *testing.T, s *Sim, client *proxmox.Client), opts ...proxmox.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New(EightA100(), Options{})
		defer s.Close()
		id, secret := s.Token()
		all := append([]proxmox.Option{proxmox.WithHTTPClient(s.Client()), proxmox.WithAPIToken(id, secret)}, opts...)
		f(t, s, proxmox.NewClient("https://pve1:8006/api2/json", all...))
	})
}

func theVM(t *testing.T, client *proxmox.Client, id int) *proxmox.VirtualMachine {
	t.Helper()
	node, err := client.Node(t.Context(), "pve1")
	require.NoError(t, err)
	v, err := node.VirtualMachine(t.Context(), id)
	require.NoError(t, err)
	return v
}

func text(s string) *string { return &s }

// The traps below are those of go-proxmox; each test shows that the rule makes
// the library fall into one.

func TestTrapFailedTaskIsNoError(t *testing.T) {
	library(t, func(t *testing.T, s *Sim, client *proxmox.Client) {
		s.Fail(Rule{Path: ".*/status/start", TaskError: "start failed: QEMU exited with code 1"})
		task, err := theVM(t, client, 104).Start(t.Context())
		require.NoError(t, err)
		require.NoError(t, task.Wait(t.Context(), time.Second, time.Minute))
		assert.True(t, task.IsFailed)
		assert.Equal(t, "start failed: QEMU exited with code 1", task.ExitStatus)
		assert.False(t, s.VMs()[1].Running)
	})
}

func TestTrapWarningsCountAsFailure(t *testing.T) {
	library(t, func(t *testing.T, s *Sim, client *proxmox.Client) {
		s.Fail(Rule{Path: ".*/status/start", TaskWarnings: 2})
		task, err := theVM(t, client, 104).Start(t.Context())
		require.NoError(t, err)
		require.NoError(t, task.Wait(t.Context(), time.Second, time.Minute))
		assert.Equal(t, "WARNINGS: 2", task.ExitStatus)
		assert.True(t, task.IsFailed)
		assert.True(t, s.VMs()[1].Running, "but the machine runs")
	})
}

func TestTrapNullUPID(t *testing.T) {
	library(t, func(t *testing.T, s *Sim, client *proxmox.Client) {
		s.Fail(Rule{Path: ".*/status/start", Data: json.RawMessage("null"), After: true})
		task, err := theVM(t, client, 104).Start(t.Context())
		require.NoError(t, err)
		assert.Nil(t, task)
	})
}

func TestTrapStatusWithoutUPID(t *testing.T) {
	library(t, func(t *testing.T, s *Sim, client *proxmox.Client) {
		s.Fail(Rule{Path: ".*/tasks/.*/status", Data: json.RawMessage(`{"status":"running"}`)})
		task, err := theVM(t, client, 104).Start(t.Context())
		require.NoError(t, err)
		require.NoError(t, task.Ping(t.Context()))
		assert.Empty(t, task.UPID)
	})
}

func TestTrapNoErrorForWhatIsOne(t *testing.T) {
	for _, status := range []int{404, 502, 503, 595, 596} {
		library(t, func(t *testing.T, s *Sim, client *proxmox.Client) {
			s.Fail(Rule{Path: "/nodes/pve1/status", Status: status, Body: text(`{"data":null}`)})
			_, err := client.Node(t.Context(), "pve1")
			assert.NoError(t, err, status)
		})
	}
}

func TestTrapLostWords(t *testing.T) {
	library(t, func(t *testing.T, s *Sim, client *proxmox.Client) {
		v := theVM(t, client, 104)
		s.Revoke("VM.PowerMgmt")
		_, err := v.Start(t.Context())
		assert.Equal(t, proxmox.ErrNotAuthorized, err, "403 without its privilege")
		_, err = client.Cluster(t.Context())
		require.NoError(t, err)
		node, err := client.Node(t.Context(), "pve1")
		require.NoError(t, err)
		_, err = node.VirtualMachine(t.Context(), 999)
		assert.ErrorContains(t, err, "500 Configuration file", "what is not there is a 500")
	})
}

func TestTrapExponents(t *testing.T) {
	library(t, func(t *testing.T, s *Sim, client *proxmox.Client) {
		var id string
		err := client.GetWithParams(t.Context(), "/cluster/nextid", map[string]int{"vmid": 1000000}, &id)
		assert.ErrorContains(t, err, "400")
		got := s.Requests()
		assert.Equal(t, "1e+06", got[len(got)-1].Params.Get("vmid"))
	})
}

func TestTrapReplayedPosts(t *testing.T) {
	library(t, func(t *testing.T, s *Sim, client *proxmox.Client) {
		v := theVM(t, client, 104)
		fault := s.Fail(Rule{Method: "POST", Path: ".*/clone", Drop: true, After: true, Times: -1})
		_, _, err := v.Clone(t.Context(), &proxmox.VirtualMachineCloneOptions{NewID: 300})
		require.Error(t, err)
		assert.Greater(t, fault.Hits(), 1, "one lost answer, several requests")
	}, proxmox.WithRetry())
}

func TestTrapQuotedNumbers(t *testing.T) {
	library(t, func(t *testing.T, s *Sim, client *proxmox.Client) {
		s.Fail(Rule{Path: ".*/qemu/104/config", Data: json.RawMessage(`{"numa":"1","onboot":"1"}`)})
		node, err := client.Node(t.Context(), "pve1")
		require.NoError(t, err)
		_, err = node.VirtualMachine(t.Context(), 104)
		assert.ErrorContains(t, err, "invalid syntax")
	})
}

func TestLostAnswers(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		s.Fail(Rule{Method: "PUT", Drop: true})
		assert.Contains(t, c.do("PUT", "/nodes/pve1/qemu/104/config", "cores", "1").reason, "EOF")
		assert.Equal(t, "8", s.VMs()[1].Config["cores"], "dropped before its effect")
		s.Fail(Rule{Method: "PUT", Drop: true, After: true})
		assert.Contains(t, c.do("PUT", "/nodes/pve1/qemu/104/config", "cores", "1").reason, "EOF")
		assert.Equal(t, "1", s.VMs()[1].Config["cores"], "dropped after it")

		s.Fail(Rule{Method: "PUT", Status: 596})
		r := c.do("PUT", "/nodes/pve1/qemu/104/config", "cores", "2")
		assert.Equal(t, []any{596, "Connection timed out", ""}, []any{r.status, r.reason, r.body})
		assert.Equal(t, "1", s.VMs()[1].Config["cores"])
		s.Fail(Rule{Method: "PUT", Status: 596, After: true})
		assert.Equal(t, 596, c.do("PUT", "/nodes/pve1/qemu/104/config", "cores", "2").status)
		assert.Equal(t, "2", s.VMs()[1].Config["cores"])

		s.Fail(Rule{Method: "PUT", Delay: 40 * time.Second})
		began := time.Now()
		assert.Equal(t, 596, c.do("PUT", "/nodes/pve1/qemu/104/config", "cores", "4").status)
		assert.Equal(t, 30*time.Second, time.Since(began))
		assert.Equal(t, "2", s.VMs()[1].Config["cores"])
		time.Sleep(11 * time.Second)
		assert.Equal(t, "4", s.VMs()[1].Config["cores"], "the work went on")
	})
}

func TestAWorkerThatDies(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		create := func(r Rule) reply {
			r.Method, r.Path = "POST", "/nodes/pve1/qemu"
			s.Fail(r)
			return c.do("POST", "/nodes/pve1/qemu", "vmid", "300")
		}
		assert.Equal(t, "no luck", c.wait(create(Rule{TaskError: "no luck"})))
		assert.Len(t, s.VMs(), 2, "a creation that fails leaves nothing")
		r := create(Rule{TaskError: Killed, Status: 500, Message: "got no worker upid - start worker failed", After: true})
		assert.Equal(t, "got no worker upid - start worker failed", r.reason)
		time.Sleep(time.Second)
		assert.Equal(t, map[string]string{"lock": "create"}, s.VMs()[2].Config, "one that dies leaves a stub")
		assert.Equal(t, "VM is locked (create)", c.wait(c.do("DELETE", "/nodes/pve1/qemu/300")), "which cannot be removed")
		assert.Equal(t, "Only root may use this option.", c.do("DELETE", "/nodes/pve1/qemu/300", "skiplock", "1").Errors["skiplock"])
	})
}

func TestRulesChooseByNumber(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		f := s.Fail(Rule{Mutating: true, Skip: 1, Times: 2, Status: 500, Message: "got no worker upid - start worker failed"})
		var got []int
		for range 5 {
			c.do("GET", "/version")
			got = append(got, c.do("PUT", "/nodes/pve1/qemu/104/config", "cores", "1").status)
		}
		assert.Equal(t, []int{200, 500, 500, 200, 200}, got)
		assert.Equal(t, 2, f.Hits())
		never := s.Fail(Rule{When: func(r Request) bool { return r.Params.Get("cores") == "7" }, Times: -1, Status: 403, Message: "Permission check failed"})
		assert.Equal(t, 200, c.do("PUT", "/nodes/pve1/qemu/104/config", "cores", "6").status)
		assert.Equal(t, 403, c.do("PUT", "/nodes/pve1/qemu/104/config", "cores", "7").status)
		never.Remove()
		assert.Equal(t, 200, c.do("PUT", "/nodes/pve1/qemu/104/config", "cores", "7").status)
	})
}

func TestRequestsAreRecordedWithoutSecrets(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		c.do("PUT", "/nodes/pve1/qemu/104/config", "cipassword", "hunter2", "ciuser", "u")
		c.do("POST", "/nodes/pve1/qemu/104/agent/file-write", "file", "/x", "content", "hunter2")
		c.upload("local", "iso", "x.iso", []byte("hunter2"))
		c.do("GET", "/nodes/pve1/qemu/999/config")
		got := s.Requests()
		raw, err := json.Marshal(got)
		require.NoError(t, err)
		assert.NotContains(t, string(raw), "hunter2")
		assert.NotContains(t, string(raw), model.OperatorSecret)
		assert.Equal(t, "u", got[0].Params.Get("ciuser"))
		assert.Equal(t, []string{"iso", "x.iso"}, []string{got[2].Params.Get("content"), got[2].Params.Get("filename")})
		assert.Equal(t, []any{true, 200, model.OperatorToken}, []any{got[2].Mutating, got[2].Status, got[2].User})
		assert.Equal(t, []any{false, 500}, []any{got[3].Mutating, got[3].Status})
		assert.Contains(t, got[3].Message, "does not exist")
		s.ForgetRequests()
		assert.Empty(t, s.Requests())
	})
}

func TestUploadsAreOrderSensitive(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte("x")))
		assert.Equal(t, "OK", c.wait(c.upload("local", "iso", "a b.iso", []byte("x"), "checksum-algorithm", "sha256", "checksum", strings.ToUpper(sum))))
		_, vol, err := s.state.Hosts["pve1"].Lookup("local:iso/a_b.iso")
		require.NoError(t, err)
		assert.Equal(t, "x", string(vol.Data))
		r := c.upload("local", "iso", "b.iso", []byte("x"), "checksum", sum, "checksum-algorithm", "sha256")
		assert.Equal(t, []any{400, "Bad Request"}, []any{r.status, r.reason})
		r = c.upload("local", "iso", "b.iso", []byte("x"), "foo", "bar")
		assert.Equal(t, 400, r.status)
		r = c.upload("local", "snippets", "b.yaml", []byte("x"))
		assert.Contains(t, r.Errors["content"], "value 'snippets' does not have a value in the enumeration 'iso, vztmpl, import'")
		r = c.upload("local", "import", "b.img", []byte("x"))
		assert.Equal(t, "invalid filename or wrong extension", r.Errors["filename"])
		assert.Contains(t, c.wait(c.upload("local", "import", "b.qcow2", []byte("x"))), "Image is not in qcow2 format")
		assert.Equal(t, "checksum mismatch: got '"+sum+"' != expect '00'", c.wait(c.upload("local", "iso", "b.iso", []byte("x"), "checksum-algorithm", "sha256", "checksum", "00")))
		assert.Equal(t, "OK", c.wait(c.upload("local", "iso", "a b.iso", []byte("y"))), "an upload overwrites")

		chunked, err := http.NewRequestWithContext(context.Background(), "POST", "https://pve/api2/json/nodes/pve1/storage/local/upload", strings.NewReader(""))
		require.NoError(t, err)
		chunked.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		chunked.ContentLength = -1
		assert.Equal(t, 501, c.send(chunked).status)
		assert.Equal(t, "OK", c.wait(c.do("DELETE", "/nodes/pve1/storage/local/content/local:iso%2Fa_b.iso")))
		assert.Equal(t, "OK", c.wait(c.do("DELETE", "/nodes/pve1/storage/local/content/local:iso/a_b.iso")), "and again")
	})
}

func TestDownloads(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		get := func(kv ...string) string {
			if !slices.Contains(kv, "filename") {
				kv = append(kv, "filename", "n.qcow2")
			}
			return c.wait(c.do("POST", "/nodes/pve1/storage/local/download-url", append(kv, "content", "import")...))
		}
		content, err := s.state.Options.Internet(nobleURL)
		require.NoError(t, err)
		sum := guest.SHA256(content)
		assert.Contains(t, get("url", nobleURL, "checksum-algorithm", "sha256", "checksum", "00"), "checksum mismatch: got '"+sum+"' != expect '00'")
		began := time.Now()
		assert.Equal(t, "OK", get("url", nobleURL, "checksum-algorithm", "sha256", "checksum", sum))
		assert.InDelta(t, 6, time.Since(began).Seconds(), 0.5, "600 MiB at 100 MiB/s")
		assert.Equal(t, "OK", get("url", nobleURL, "checksum-algorithm", "sha256", "checksum", sum), "already there")
		assert.Equal(t, "refusing to override existing file '/var/lib/vz/import/n.qcow2'", get("url", nobleURL))
		assert.Equal(t, "download failed: exit code 8", get("url", nobleURL+"x", "filename", "m.qcow2"))
		r := c.do("POST", "/nodes/pve1/qemu", "vmid", "303", "scsi0", "vmdata:0,import-from=local:import/none.qcow2")
		assert.Equal(t, "unable to create VM 303 - failed to stat '/var/lib/vz/import/none.qcow2'", c.wait(r))
		assert.Len(t, s.VMs(), 2, "a failed creation leaves nothing")
	})
}
