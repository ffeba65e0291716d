package pvesim

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
)

// logOf runs a request's task and returns its log.
func (c *caller) logOf(r reply) []string {
	c.t.Helper()
	c.wait(r)
	var upid string
	require.NoError(c.t, json.Unmarshal(r.Data, &upid))
	var lines []struct{ T string }
	require.NoError(c.t, json.Unmarshal(c.do("GET", "/nodes/pve1/tasks/"+upid+"/log", "limit", "0").Data, &lines))
	var out []string
	for _, l := range lines {
		out = append(out, l.T)
	}
	return out
}

// An image that its format cannot hold fails as qemu-img fails, and takes no number; seen on 9.2.
func TestDisksTooLarge(t *testing.T) {
	in(t, OneGPU(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		c.walk([]step{{"POST", "/storage", kv("storage", "files", "type", "dir", "path", "/srv/files", "content", "images"), ""}})
		c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "400", "memory", "64"))
		path := s.state.Hosts["pve1"].Stores["files"].Path("400/vm-400-disk-0")
		for drive, want := range map[string]string{
			"files:17000,format=raw":             "qemu-img: " + path + ".raw: The image size is too large for file format 'raw'",
			"files:99999999,format=qcow2":        "qemu-img: " + path + ".qcow2: The image size is too large for file format 'qcow2' (try using a larger cluster size)",
			"files:99999999999,format=qcow2":     "qemu-img: Invalid image size specified. Must be between 0 and 9223372036854775807.",
			"files:99999999999999999,format=raw": "qemu-img: Invalid image size specified. Must be between 0 and 9223372036854775807.",
		} {
			assert.Equal(t, "500 unable to create image: "+want, c.do("PUT", "/nodes/pve1/qemu/400/config", "scsi0", drive).line(), drive)
		}
		require.Equal(t, "200 OK", c.do("PUT", "/nodes/pve1/qemu/400/config", "scsi0", "files:16383,format=raw").line())
		assert.Equal(t, "files:400/vm-400-disk-0.raw,size=16383G", c.do("GET", "/nodes/pve1/qemu/400/config").object()["scsi0"])
	})
}

// The emulator of a TPM is stopped when QEMU does not start.
func TestStartWithoutQEMUStopsItsTPM(t *testing.T) {
	in(t, OneGPU(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		for tpm, stopped := range map[string]bool{"": false, "vmdata:1,version=v2.0": true} {
			kv := []string{"vmid", "400", "memory", "64", "scsi0", "vmdata:1,aio=native,cache=writeback"}
			if tpm != "" {
				kv = append(kv, "tpmstate0", tpm)
			}
			c.wait(c.do("POST", "/nodes/pve1/qemu", kv...))
			log := strings.Join(c.logOf(c.do("POST", "/nodes/pve1/qemu/400/status/start")), "\n")
			assert.Contains(t, log, "start failed: QEMU exited with code 1")
			assert.Equal(t, stopped, strings.Contains(log, "due to QEMU startup error"), log)
			c.wait(c.do("DELETE", "/nodes/pve1/qemu/400"))
		}
	})
}

// A ticket ends after two hours, also for what everybody may read; before, it is a password with
// which one gets the next, and root one for others.
func TestTicketsEnd(t *testing.T) {
	in(t, OneGPU(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		c.walk([]step{{"POST", "/access/users", kv("userid", "student3@pve", "password", "long-enough-1"), ""}})
		nobody := &caller{t: t, s: s}
		ticket := func(password string) string {
			out, _ := nobody.do("POST", "/access/ticket", "username", "student3@pve", "password", password).object()["ticket"].(string)
			return out
		}
		first := ticket("long-enough-1")
		time.Sleep(time.Hour)
		second := ticket(first)
		require.NotEmpty(t, second)
		time.Sleep(time.Hour + time.Second)
		assert.Equal(t, "401 Authentication failed!", c.withTicket(first, "/version").line())
		assert.Equal(t, "200 OK", c.withTicket(second, "/version").line())
		assert.Equal(t, "200 OK", c.withTicket(first, "/access/domains").line(), "asks for none")
		assert.Empty(t, ticket(first))
		nobody.walk([]step{{"POST", "/access/ticket", kv("username", "root@pam", "password", second), "401 authentication failure"}})
	})
}

// Privileges that do not exist are refused before tickets and passwords are looked at.
func TestPrivilegesOfTickets(t *testing.T) {
	in(t, OneGPU(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := &caller{t: t, s: s}
		for _, step := range []struct {
			path string
			kv   []string
		}{
			{"/access/vncticket", kv("authid", "root@pam", "path", "/", "privs", "NoSuch", "vncticket", "x")},
			{"/access/ticket", kv("username", "root@pam", "path", "/", "privs", "NoSuch", "password", "x")},
		} {
			r := c.do("POST", step.path, step.kv...)
			assert.Equal(t, "400 Parameter verification failed.", r.line(), step.path)
			assert.Equal(t, map[string]string{"privs": "invalid format - invalid privilege 'NoSuch'\n"}, r.Errors, step.path)
		}
		assert.Equal(t, "401 authentication failure", c.do("POST", "/access/vncticket", "authid", "root@pam", "path", "/", "privs", "Sys.Audit", "vncticket", "x").line())
	})
}

// A right on something that the request does not name is looked up on -.
func TestRightsOnNothing(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		c.walk([]step{{"POST", "/access/users", kv("userid", "student3@pve", "password", "long-enough-1"), ""}})
		nobody := &caller{t: t, s: s}
		ticket, _ := nobody.do("POST", "/access/ticket", "username", "student3@pve", "password", "long-enough-1").object()["ticket"].(string)
		assert.Equal(t, "403 Permission check failed (/nodes/-, Sys.Audit)", c.withTicket(ticket, "/cluster/acme/meta").line())
	})
}

// Redirections are in a download's log, and the type is that of where they lead.
func TestDownloadsFollowRedirections(t *testing.T) {
	web := func(raw string) ([]byte, error) {
		switch {
		case strings.HasSuffix(raw, "/latest"):
			return nil, &guest.StatusError{Code: 302, Reason: "Found", Location: "/a.iso"}
		case strings.HasSuffix(raw, "/loop"):
			return nil, &guest.StatusError{Code: 301, Reason: "Moved Permanently", Location: "/loop"}
		}
		return make([]byte, 4096), nil
	}
	in(t, OneGPU(), Options{Internet: web}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		r := c.do("POST", "/nodes/pve1/storage/local/download-url", "content", "iso", "filename", "b.iso", "url", "https://web.example/latest")
		log := strings.Join(c.logOf(r), "\n")
		assert.Contains(t, log, "HTTP request sent, awaiting response... 302 Found\nLocation: /a.iso [following]\n--")
		assert.Contains(t, log, "--  https://web.example/a.iso\n")
		assert.Contains(t, log, "[application/x-iso9660-image]\nSaving to: ")
		about := c.do("GET", "/nodes/pve1/query-url-metadata", "url", "https://web.example/latest").object()
		assert.Equal(t, []any{"latest", "application/x-iso9660-image"}, []any{about["filename"], about["mimetype"]})
		r = c.do("POST", "/nodes/pve1/storage/local/download-url", "content", "iso", "filename", "c.iso", "url", "https://web.example/loop")
		assert.Contains(t, c.wait(r), "20 redirections exceeded.")
		assert.Equal(t, "500 invalid server response: '301 Moved Permanently'", c.do("GET", "/nodes/pve1/query-url-metadata", "url", "https://web.example/loop").line())
	})
}

// The points of a graph have the keys of the release.
func TestHistoryKeys(t *testing.T) {
	for version, more := range map[string][]string{"9.2.11": {"arcsize", "memavailable", "pressurecpusome", "pressureiofull", "pressureiosome", "pressurememoryfull", "pressurememorysome"}, "8.4.1": nil} {
		m := OneGPU()
		m.Version = version
		in(t, m, Options{}, func(t *testing.T, s *Sim, c *caller) {
			var points []map[string]any
			require.NoError(t, json.Unmarshal(c.do("GET", "/nodes/pve1/rrddata", "timeframe", "hour").Data, &points))
			want := slices.Sorted(slices.Values(append([]string{"cpu", "iowait", "loadavg", "maxcpu", "memtotal", "memused", "netin", "netout", "rootused", "roottotal", "swaptotal", "swapused", "time"}, more...)))
			assert.Equal(t, want, slices.Sorted(maps.Keys(points[0])), version)
		})
	}
}
