package conform

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// answersYAML lists keys of answers that differ from Proxmox's schema, with reasons.
//
//go:embed answers.yaml
var answersYAML []byte

// AnswersReport is the result of reading everything.
type AnswersReport struct {
	Methods  int      // that were read
	Compared int      // whose answers the schema describes
	Problems []string // missing or unknown keys without an explanation
}

// Err returns an error if keys are missing or unknown.
func (a *AnswersReport) Err() error {
	var errs []error
	for _, p := range a.Problems {
		errs = append(errs, errors.New(p))
	}
	return errors.Join(errs...)
}

// things are the values of path variables, on the host that is read.
func things() map[string]string {
	return map[string]string{"node": "pve1", "vmid": "300", "storage": "local", "volume": "local:iso/seed.iso", "snapname": "before", "userid": "student3@pve", "tokenid": "t1",
		"groupid": "ops", "roleid": "Watcher", "realm": "pve", "poolid": "lab", "id": "thing", "pos": "0", "name": "thing", "cidr": "10.9.0.0/16", "group": "web",
		"sid": "vm:300", "iface": "vmbr0", "pci-id-or-mapping": "0000:01:00.0"}
}

// steps create such things, so that there is something to read.
func steps() [][]string {
	const vm = "/nodes/pve1/qemu/300"
	return [][]string{
		{"POST", "/access/groups", "groupid=ops", "comment=who runs it"},
		{"POST", "/access/roles", "roleid=Watcher", "privs=VM.Audit"},
		{"POST", "/access/users", "userid=student3@pve", "groups=ops", "comment=a user", "email=student3@example.com"},
		{"POST", "/access/users/student3@pve/token/t1", "comment=hers"},
		{"PUT", "/access/acl", "path=/vms", "roles=Watcher", "groups=ops"},
		{"POST", "/pools", "poolid=lab", "comment=a pool"},
		{"POST", "/nodes/pve1/qemu", "vmid=300", "name=thing", "memory=2048", "scsi0=vmdata:8", "ide2=vmdata:cloudinit", "net0=virtio,bridge=vmbr0", "ciuser=u", "ipconfig0=ip=dhcp", "tags=a;b", "pool=lab"},
		{"POST", vm + "/snapshot", "snapname=before", "description=as it was"},
		{"POST", vm + "/status/start"},
		{"PUT", vm + "/config", "memory=4096"},
		{"POST", "/nodes/pve1/storage/local/download-url", "content=iso", "filename=seed.iso", "url=http://x/a.iso"},
		{"POST", "/cluster/mapping/pci", "id=thing", "map=node=pve1,path=0000:01:00.0,id=10de:2684,iommugroup=13,subsystem-id=1043:88e2", "description=a card"},
		{"POST", "/cluster/mapping/usb", "id=thing", "map=node=pve1,id=1234:5678", "description=a stick"},
		{"POST", "/cluster/mapping/dir", "id=thing", "map=node=pve1,path=/srv", "description=a folder"},
		{"POST", "/cluster/ha/resources", "sid=vm:300"},
		{"POST", "/cluster/firewall/groups", "group=web", "comment=a group"},
		{"POST", "/cluster/firewall/groups/web", "type=in", "action=ACCEPT", "proto=tcp", "dport=443"},
		{"POST", "/cluster/firewall/aliases", "name=thing", "cidr=10.9.0.0/16"},
		{"POST", "/cluster/firewall/ipset", "name=thing"},
		{"POST", "/cluster/firewall/ipset/thing", "cidr=10.9.0.0/16"},
		{"POST", "/cluster/firewall/rules", "type=in", "action=ACCEPT", "comment=a rule"},
		{"POST", "/nodes/pve1/firewall/rules", "type=in", "action=DROP"},
		{"POST", vm + "/firewall/rules", "type=in", "action=DROP", "enable=1"},
		{"POST", vm + "/firewall/aliases", "name=thing", "cidr=10.9.0.0/16"},
		{"POST", vm + "/firewall/ipset", "name=thing"},
		{"POST", vm + "/firewall/ipset/thing", "cidr=10.9.0.0/16"},
		{"PUT", vm + "/firewall/options", "enable=1"},
		{"PUT", "/cluster/options", "tag-style=shape=circle", "description=text"},
	}
}

// needs are query parameters without which a method cannot be read.
func needs() map[string]string {
	return map[string]string{"GET /nodes/{node}/query-url-metadata": "url=http://x/a.iso", "GET /nodes/{node}/qemu/{vmid}/feature": "feature=snapshot",
		"GET /nodes/{node}/qemu/{vmid}/cloudinit/dump": "type=user", "GET /nodes/{node}/qemu/{vmid}/rrddata": "timeframe=hour", "GET /nodes/{node}/qemu/{vmid}/rrd": "ds=cpu timeframe=hour",
		"GET /nodes/{node}/rrddata": "timeframe=hour", "GET /nodes/{node}/storage/{storage}/rrddata": "timeframe=hour"}
}

// notRead are methods that return nothing on a host without running guests, without
// containers, or without HA groups; and that of USB mappings, whose schema promises keys that
// Proxmox's code does not return.
var notRead = regexp.MustCompile(`/agent(/|$)|/lxc/|/cluster/ha/(rules/|groups)|/cluster/mapping/usb$|/replication/\{id\}|/cluster/(backup|replication|config/join|backup-info$)|/cluster/sdn/\w+/|/metrics/server/|` +
	`/(prunebackups|import-metadata|extractconfig|vncwebsocket|services/\{service\}|file-restore/list|smart|changelog|rrd)$`)

// statsRound is the interval at which a host's figures are updated, in seconds.
const statsRound = 15

// reader reads a simulated host as root.
type reader struct{ sim *pvesim.Sim }

// Answers makes things of every kind on a simulated host and reads all that can be
// read, and compares the keys with those that the schema promises. Call it within
// testing/synctest.
func Answers(ctx context.Context) (*AnswersReport, error) {
	full, err := loadAPI()
	if err != nil {
		return nil, err
	}
	seen, err := recordedKeys()
	if err != nil {
		return nil, err
	}
	explained := map[string]string{}
	if err := yaml.Unmarshal(answersYAML, &explained); err != nil {
		return nil, fmt.Errorf("answers.yaml: %w", err)
	}
	model := pvesim.OneGPU()
	model.Tokens = append(model.Tokens, pvesim.Token{ID: "root@pam!reader", Secret: "s"})
	r := reader{pvesim.New(model, pvesim.Options{Internet: func(string) ([]byte, error) { return make([]byte, 4096), nil }})}
	defer r.sim.Close()
	for _, s := range steps() {
		if _, err := r.ask(ctx, s[0], s[1], s[2:]...); err != nil {
			return nil, err
		}
		r.sim.Settle()
		if err := (&replay{sim: r.sim, began: time.Now()}).waitUntil(ctx, statsRound); err != nil {
			return nil, err
		}
	}
	out, used := &AnswersReport{}, map[string]bool{}
	for _, m := range pvesim.Methods() {
		if !strings.HasPrefix(m.Name, "GET ") || notRead.MatchString(m.Name) {
			continue
		}
		out.Methods++
		where, err := r.fill(ctx, m.Name)
		if err != nil {
			return nil, err
		}
		data, err := r.ask(ctx, http.MethodGet, where, strings.Fields(needs()[m.Name])...)
		if err != nil {
			out.Problems = append(out.Problems, fmt.Sprintf("%s: %v", m.Name, err))
			continue
		}
		if shape := full.Methods[m.Name].Returns; shape != nil {
			out.Compared++
			out.Problems = append(out.Problems, shape.compare(m.Name, data, seen, explained, used)...)
		}
	}
	for entry := range explained {
		if !used[entry] {
			out.Problems = append(out.Problems, fmt.Sprintf("answers.yaml explains %q, which is as the schema has it", entry))
		}
	}
	return out, nil
}

// fill puts things into a method's path.
func (r reader) fill(ctx context.Context, name string) (string, error) {
	var err error
	out := pathVariable.ReplaceAllStringFunc(path(name), func(v string) string {
		v = strings.Trim(v, "{}")
		if v == "upid" {
			var data any
			if data, err = r.ask(ctx, http.MethodGet, "/nodes/pve1/tasks"); err != nil {
				return ""
			}
			task, _ := data.([]any)[0].(map[string]any)
			return url.PathEscape(fmt.Sprint(task["upid"]))
		}
		return url.PathEscape(things()[v])
	})
	return out, err
}

func (r reader) ask(ctx context.Context, method, path string, kv ...string) (any, error) {
	form := url.Values{}
	for _, pair := range kv {
		k, v, _ := strings.Cut(pair, "=")
		form.Add(k, v)
	}
	target := "https://pve1:8006/api2/json" + path
	var body []byte
	if method == http.MethodGet {
		target += "?" + form.Encode()
	} else {
		body = []byte(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "PVEAPIToken=root@pam!reader=s")
	if body == nil {
		req.Body, req.ContentLength = nil, 0
	} else {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	got, err := (&replay{sim: r.sim}).send(req)
	if err != nil {
		return nil, err
	}
	if got.Status != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %d %s %s", method, path, got.Status, got.Reason, got.Body)
	}
	var answer struct{ Data any }
	err = json.Unmarshal([]byte(got.Body), &answer)
	return answer.Data, err
}

// recordedKeys are the keys of real answers, whatever the schema says: it does not list all.
func recordedKeys() (map[string]bool, error) {
	scenarios, err := Scenarios()
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				seen[k] = true
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	for _, s := range scenarios {
		for _, e := range s.had {
			walk(parseJSON(e.Body))
		}
	}
	return seen, nil
}

// compare returns the missing keys of an answer, and those that neither the schema nor any
// recorded answer has.
func (s *shape) compare(name string, data any, seen map[string]bool, explained map[string]string, used map[string]bool) (problems []string) {
	entries := []any{data}
	if s.List {
		entries, _ = data.([]any)
	}
	complain := func(k, what string) {
		for _, entry := range []string{k, name + " " + k} {
			if explained[entry] != "" {
				used[entry] = true
				return
			}
		}
		if p := fmt.Sprintf("%s: key %s %s", name, k, what); !slices.Contains(problems, p) {
			problems = append(problems, p)
		}
	}
	for _, e := range entries {
		have, ok := e.(map[string]any)
		if !ok {
			return append(problems, fmt.Sprintf("%s: an entry is %T", name, e))
		}
		for _, k := range slices.Sorted(maps.Keys(s.Keys)) {
			if _, there := have[k]; s.Keys[k] && !there {
				complain(k, "is missing, and the schema promises it")
			}
		}
		for _, k := range slices.Sorted(maps.Keys(have)) {
			if _, known := s.Keys[k]; !known && !s.Open && !s.knows(k) && !seen[k] {
				complain(k, "is not in the schema")
			}
		}
	}
	return problems
}

// knows reports whether a key is one of several of a kind: net3 of net[n].
func (s *shape) knows(k string) bool {
	_, ok := s.Keys[strings.TrimRight(k, "0123456789")+"[n]"]
	return ok
}
