package k3s

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// manageTime is how often etcd's leader looks at the members and sets the condition
// EtcdIsVoter of their Nodes (manageTickerTime and manageLearners, pkg/etcd/etcd.go of
// release-1.34).
const manageTime = 15 * time.Second

// judge has etcd's leader look at the members at its next turn. c.mu must be held.
func (c *cluster) judge() {
	if c.judging != nil || c.closed || len(c.active) == 0 {
		return
	}
	c.judging = time.AfterFunc(c.scale(manageTime), func() {
		c.mu.Lock()
		c.judging = nil
		if c.closed || len(c.active) <= len(c.members)/2 { // without a quorum nothing can be written; a server that comes back asks again
			c.mu.Unlock()
			return
		}
		ctx := context.WithoutCancel(c.active[0].sys.Context())
		well := map[string]bool{}
		for name := range c.members {
			well[name] = false
		}
		for _, n := range c.active {
			well[n.name] = !n.sick()
		}
		c.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(well)) {
			if err := c.setVoter(ctx, name, well[name]); err != nil {
				c.mu.Lock()
				c.judge()
				c.mu.Unlock()
				return
			}
		}
	})
}

// sick reports whether the etcd member of a server answers nobody.
func (n *node) sick() bool { return n.sys.Faulty(func(f machine.Faults) bool { return f.EtcdSick }) }

// setVoter sets the condition of a server's Node, if it is another. Reasons and messages are
// those of setEtcdStatusCondition.
func (c *cluster) setVoter(ctx context.Context, name string, well bool) error {
	code, body, err := apiGet(ctx, c.plane, "/api/v1/nodes/"+name)
	if err != nil || code == http.StatusNotFound {
		return err
	}
	var doc map[string]any
	if err := json.Unmarshal(body, &doc); err != nil {
		return err
	}
	now := time.Now().UTC().Format(time.RFC3339)
	want := map[string]any{"type": "EtcdIsVoter", "status": "True", "reason": "MemberNotLearner",
		"message": "Node is a voting member of the etcd cluster", "lastHeartbeatTime": now, "lastTransitionTime": now}
	if !well {
		want["status"], want["reason"], want["message"] = "False", "Unhealthy", "failed to check etcd member status: context deadline exceeded"
	}
	status, _ := doc["status"].(map[string]any)
	if status == nil {
		return nil
	}
	old, _ := status["conditions"].([]any)
	conditions := []any{want}
	for _, each := range old {
		have, _ := each.(map[string]any)
		if have["type"] != want["type"] {
			conditions = append(conditions, each)
		} else if have["status"] == want["status"] {
			return nil
		}
	}
	status["conditions"] = conditions
	if body, err = json.Marshal(doc); err != nil {
		return err
	}
	code, _, err = apiDo(ctx, c.plane, http.MethodPut, "/api/v1/nodes/"+name+"/status", body)
	if err == nil && code != http.StatusOK && code != http.StatusNotFound {
		err = fmt.Errorf("PUT status of node %s: status %d", name, code)
	}
	return err
}

// kubectlRaw is kubectl get --raw, which asks the API server on this machine.
func kubectlRaw(ctx context.Context, p *machine.Proc, n *node, path string) int {
	failed := func(format string, args ...any) int {
		fmt.Fprintf(p.Stderr, format+"\n", args...)
		return 1
	}
	if !n.cluster.quorate() {
		return failed("The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?")
	}
	checks, verbose := strings.CutSuffix(path, "?verbose")
	ready := checks == "/readyz" || checks == "/livez"
	if ready && n.sick() {
		// The checks of a server that is well come before and after (staging/src/k8s.io/apiserver/pkg/server/healthz).
		return failed("Error from server (InternalError): an error on the server (%q) has prevented the request from succeeding",
			"[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\n[-]etcd-readiness failed: reason withheld\nreadyz check failed")
	}
	code, body, err := apiGet(ctx, n.cluster.plane, checks)
	switch {
	case err != nil:
		return failed("Unable to connect to the server: %v", err)
	case code >= http.StatusMultipleChoices:
		return failed("Error from server: %s", body)
	case ready && verbose:
		p.Printf("[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\nreadyz check passed\n")
	default:
		p.Printf("%s", body)
	}
	return 0
}
