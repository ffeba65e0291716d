package pvesim

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParametersAreChecked(t *testing.T) {
	const unknown = "property is not defined in schema and the schema does not allow additional properties"
	const config = "PUT /nodes/pve1/qemu/104/config"
	tests := []struct{ method, params, param, text string }{
		{config, "foo=bar", "foo", unknown},
		{config, "hostpci16=mapping=x", "hostpci16", unknown},
		{config, "cores=0", "cores", "value must have a minimum value of 1"},
		{config, "cores=two", "cores", "type check ('integer') failed - got 'two'"},
		{config, "onboot=true", "onboot", "type check ('boolean') failed - got 'true'"},
		{config, "memory=8", "memory", "invalid format - format error\nmemory.current: value must have a minimum value of 16\n"},
		{config, "name=a_b", "name", "invalid format - value does not look like a valid DNS name\n"},
		{config, "net0=virtio,bridge=vmbr0,speed=9", "net0", "invalid format - format error\nnet0.speed: " + unknown + "\n"},
		{config, "net0=bridge=vmbr0", "net0", "invalid format - format error\nnet0.model: property is missing and it is not optional\n"},
		{config, "hostpci0=0000:0A:00.0", "hostpci0", "invalid format - format error\nhostpci0.host: value does not match the regex pattern\n"},
		{config, "ipconfig0=gw=10.0.0.1", "ipconfig0", "invalid format - format error\nipconfig0.ip: missing property required by 'ipconfig0.gw'\n"},
		{config, "digest=" + strings.Repeat("0", 41), "digest", "value may only be 40 characters long"},
		{config, "delete=nosuch", "delete", "unknown option 'nosuch'"},
		{config, "cpu=bogus", "cpu", "invalid format - Built-in cputype 'bogus' is not defined (missing 'custom-' prefix?)"},
		{config, "description=" + strings.Repeat("x", 8193), "description", "value may only be 8192 characters long"},
		{"PUT /nodes/pve1/qemu/104/resize", "disk=scsi0&size=abc", "size", "value does not match the regex pattern"},
		{"PUT /nodes/pve1/qemu/104/resize", "disk=scsi99&size=1G", "disk", "value 'scsi99' does not have a value in the enumeration"},
		{"POST /nodes/pve1/qemu/104/clone", "", "newid", "property is missing and it is not optional"},
		{"POST /nodes/pve1/qemu/104/clone", "newid=5", "newid", "invalid format - value does not look like a valid VM ID\n"},
		{"GET /cluster/nextid", "vmid=1e+06", "vmid", "type check ('integer') failed - got '1e+06'"},
		{"GET /cluster/nextid", "vmid=100", "vmid", "VM 100 already exists"},
		{"POST /nodes/pve1/storage/local/download-url", "content=import&filename=a.img&url=https://x/a", "filename", "invalid filename or wrong extension"},
		{"POST /nodes/pve1/storage/local/download-url", "content=import&filename=a.qcow2&url=https://x/a&checksum=ab", "checksum-algorithm", "missing property required by 'checksum'"},
		{"POST /nodes/pve1/storage/local/download-url", "content=import&filename=a.qcow2&url=ftp://x/a", "url", "value does not match the regex pattern"},
		{"POST /cluster/mapping/pci", "id=g&map=node=pve1,path=0000:0A:00,id=10de:20f1", "map[0]", "invalid format - format error\nmap[0].path: value does not match the regex pattern\n"},
		{"POST /nodes/pve1/qemu", "vmid=300&scsi0=vmdata:5,import-from=local:import/x.qcow2", "scsi0", "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>"},
		{"POST /nodes/pve1/qemu", "vmid=300&scsi0=vmdata:0,import-from=local:iso/x.img", "scsi0", "local:iso/x.img has wrong type 'iso' - needs to be 'images' or 'import'"},
		{"POST /nodes/pve1/qemu", "vmid=300&scsi0=local:5", "storage", "storage 'local' does not support vm images"},
	}
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		for _, x := range tests {
			verb, path, _ := strings.Cut(x.method, " ")
			var kv []string
			for part := range strings.SplitSeq(x.params, "&") {
				k, v, _ := strings.Cut(part, "=")
				if k != "" {
					kv = append(kv, k, v)
				}
			}
			r := c.do(verb, path, kv...)
			assert.Equal(t, "400 Parameter verification failed.", strconv.Itoa(r.status)+" "+r.reason, x.params)
			assert.True(t, strings.HasPrefix(r.Errors[x.param], x.text), "%s: %q", x.params, r.Errors)
		}
		assert.Empty(t, s.state.Tasks, "nothing was begun")
	})
}

func TestRefusalsWithoutParameters(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		for _, x := range []struct {
			method, path string
			kv           []string
			want         string
		}{
			{"GET", "/nodes/pve1/nope", nil, "501 Method 'GET /nodes/pve1/nope' not implemented"},
			{"PATCH", "/version", nil, "501 method 'PATCH' not available"},
			{"GET", "/nodes/nope/qemu", nil, "500 hostname lookup 'nope' failed - failed to get address info for: nope: Temporary failure in name resolution"},
			{"GET", "/nodes/pve1/qemu/300/config", nil, "500 Configuration file 'nodes/pve1/qemu-server/300.conf' does not exist"},
			{"PUT", "/nodes/pve1/qemu/104/config", nil, "500 no options specified"},
			{"PUT", "/nodes/pve1/qemu/104/config", []string{"digest", "00", "cores", "1"}, "500 checksum mismatch (file change by other user?)"},
			{"PUT", "/nodes/pve1/qemu/104/config", []string{"boot", "order=scsi7"}, "500 invalid bootorder: device 'scsi7' does not exist'"},
			{"PUT", "/nodes/pve1/qemu/104/config", []string{"ide2", "local:iso/x.iso,media=cdrom"}, "500 volume 'local:iso/x.iso' does not exist"},
			{"PUT", "/nodes/pve1/qemu/104/config", []string{"scsi3", "nope:4"}, "500 storage 'nope' does not exist"},
			{"PUT", "/nodes/pve1/qemu/104/config", []string{"args", "-s"}, "500 only root can set 'args' config"},
			{"PUT", "/nodes/pve1/qemu/104/config", []string{"hostpci0", "0000:01:00"}, "500 only root can set 'hostpci0' config for non-mapped devices"},
			{"POST", "/nodes/pve1/qemu", []string{"vmid", "104"}, "500 unable to create VM 104 - VM 104 already exists on node 'pve1'"},
			{"POST", "/nodes/pve1/qemu", []string{"vmid", "300", "vmgenid", "1"}, "500 only root can set 'vmgenid' config"},
			{"POST", "/nodes/pve1/qemu/104/clone", []string{"newid", "300", "full", "0"}, "500 Linked clone feature is not supported for 'vmdata:vm-104-disk-0' (efidisk0)"},
			{"GET", "/nodes/pve1/qemu/100/agent/info", nil, "500 No QEMU guest agent configured"},
			{"POST", "/nodes/pve1/storage/vmdata/download-url", []string{"content", "iso", "filename", "a.iso", "url", "https://x/a"}, "500 can't upload to storage type 'zfspool', not a file based storage!"},
			{"GET", "/nodes/pve1/storage/nope/content", nil, "500 storage 'nope' does not exist"},
		} {
			r := c.do(x.method, x.path, x.kv...)
			assert.Equal(t, x.want, strconv.Itoa(r.status)+" "+r.reason, x.path)
		}
		assert.Empty(t, s.state.Tasks)
	})
}

func TestBodiesAreReadAsProxmoxDoes(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		put := func(kind, body string) reply {
			r, err := http.NewRequestWithContext(context.Background(), "PUT", "https://pve/api2/json/nodes/pve1/qemu/104/config", strings.NewReader(body))
			require.NoError(t, err)
			r.Header.Set("Content-Type", kind)
			return c.send(r)
		}
		assert.Equal(t, 200, put("application/json", `{"cores":4,"onboot":true,"tags":"b;a"}`).status)
		for body, want := range map[string]string{ // as 9.2's own daemon answers
			`{"name":true}`:      "type check ('string') failed - got JSON::PP::Boolean",
			`{"cores":true}`:     "type check ('integer') failed - got JSON::PP::Boolean",
			`{"cpulimit":false}`: "type check ('number') failed - got JSON::PP::Boolean",
		} {
			got := put("application/json", body)
			assert.Equal(t, 400, got.status, body)
			assert.Contains(t, string(got.body), want, body)
		}
		for body, want := range map[string]string{ // so does it
			`{"cores":null,"sockets":2}`: "500 unable to parse value of 'cores' - got undefined value",
			`{"name":null}`:              "500 unable to parse value of 'name' - got undefined value",
			`{"cpu":null}`:               "500 unable to parse value of 'cpu' - got undefined value",
			`{"scsi3":null}`:             "400 Parameter verification failed.",
			`{"nosuch":null}`:            "400 Parameter verification failed.",
			`{"delete":null}`:            "500 no options specified",
			`{"description":null}`:       "200 OK",
		} {
			assert.Equal(t, want, put("application/json", body).line(), body)
		}
		conf := c.do("GET", "/nodes/pve1/qemu/104/config").object()
		assert.NotContains(t, conf, "sockets", "nothing of a change that fails is kept")
		assert.Equal(t, []any{4.0, 1.0, "a;b", "32768"}, []any{conf["cores"], conf["onboot"], conf["tags"], conf["memory"]})
		assert.Equal(t, 200, put("application/x-www-form-urlencoded", "cores=2;onboot=0").status, "; separates like &")
		assert.Equal(t, "500 malformed JSON string", strconv.Itoa(put("application/json", "{").status)+" "+put("application/json", "{").reason)
		assert.Equal(t, "506 upload 'Content-Type 'text/plain' not implemented", put("text/plain", "cores=2").line())
		assert.Equal(t, "for data too large",
			put("application/x-www-form-urlencoded", "description="+strings.Repeat("x", 512<<10)).reason)
		r, err := http.NewRequestWithContext(context.Background(), "GET", "https://pve/api2/json/version", strings.NewReader("x=1"))
		require.NoError(t, err)
		assert.Equal(t, "Unexpected content for method 'GET'", c.send(r).reason)
	})
}
