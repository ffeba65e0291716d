package pvesim

import (
	"encoding/json"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type taskEntry struct {
	UPID, ID, Type, Status, User, TokenID string
	EndTime                               int64
}

func (c *caller) tasks(kv ...string) (out []taskEntry, total int) {
	c.t.Helper()
	r := c.do("GET", "/nodes/pve1/tasks", kv...)
	require.NoError(c.t, json.Unmarshal(r.Data, &out))
	return out, r.Total
}

func TestTaskLists(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/104/status/start")))
		time.Sleep(2 * time.Second)
		later := time.Now().Unix()
		require.Contains(t, c.wait(c.do("POST", "/nodes/pve1/qemu/104/status/start")), "already running")
		s.Fail(Rule{Path: ".*/stop", TaskDelay: time.Minute})
		stop := c.do("POST", "/nodes/pve1/qemu/104/status/stop")

		all, total := c.tasks("source", "all")
		assert.Len(t, all, 3)
		assert.Equal(t, 3, total)
		assert.Equal(t, "qmstop", all[0].Type, "the latest comes first")
		assert.Zero(t, all[0].EndTime, "a running task has no end")
		assert.Empty(t, all[0].Status)
		assert.Equal(t, "homelab@pve", all[0].User)
		assert.Equal(t, "operator", all[0].TokenID)

		active, _ := c.tasks("source", "active")
		require.Len(t, active, 1)
		assert.Equal(t, "RUNNING", active[0].Status)
		archived, _ := c.tasks()
		assert.Len(t, archived, 2)
		failed, total := c.tasks("errors", "1", "limit", "1")
		assert.Len(t, failed, 1)
		assert.Equal(t, 1, total)
		since, _ := c.tasks("since", strconv.Itoa(int(later)))
		assert.Len(t, since, 1)
		one, total := c.tasks("source", "all", "limit", "1", "start", "1")
		assert.Len(t, one, 1)
		assert.Equal(t, 3, total)
		none, _ := c.tasks("vmid", "100", "source", "all")
		assert.Empty(t, none)

		assert.Equal(t, 200, c.do("DELETE", "/nodes/pve1/tasks/"+url.PathEscape(stop.text())).status)
		assert.Equal(t, "received interrupt", c.wait(stop))
	})
}

func TestTaskLogPages(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		c.template()
		clone := c.do("POST", "/nodes/pve1/qemu/900/clone", "newid", "201")
		require.Equal(t, "OK", c.wait(clone))
		path := "/nodes/pve1/tasks/" + clone.text() + "/log"
		type line struct {
			N int
			T string
		}
		var lines []line
		r := c.do("GET", path, "limit", "0")
		require.NoError(t, json.Unmarshal(r.Data, &lines))
		assert.Equal(t, "TASK OK", lines[len(lines)-1].T)
		assert.Equal(t, len(lines), r.Total)
		r = c.do("GET", path, "start", "1", "limit", "1")
		require.NoError(t, json.Unmarshal(r.Data, &lines))
		require.Len(t, lines, 1)
		assert.Equal(t, 2, lines[0].N)
	})
}

func TestATokenSeesItsOwnTasks(t *testing.T) {
	m := EightA100()
	m.Users = append(m.Users, User{ID: "other@pve"})
	m.Tokens = append(m.Tokens, Token{ID: "other@pve!t", Secret: "s3cret"})
	in(t, m, Options{}, func(t *testing.T, s *Sim, c *caller) {
		s.Revoke("Sys.Audit")
		mine := c.do("POST", "/nodes/pve1/qemu/104/status/start")
		require.Equal(t, "OK", c.wait(mine))
		other := &caller{t: t, s: s, auth: "PVEAPIToken=other@pve!t=s3cret"}
		r := other.do("GET", "/nodes/pve1/tasks/"+mine.text()+"/status")
		assert.Equal(t, "403 Permission check failed (/nodes/pve1, Sys.Audit)", strconv.Itoa(r.status)+" "+r.reason)
		assert.Equal(t, `{"data":[]}`, other.do("GET", "/nodes/pve1/tasks").body)
		r = c.do("GET", "/nodes/pve1/tasks/UPID:pve1:00000001:00000001:00000001:qmstart:1:a@pve:/status")
		assert.Equal(t, map[string]string{"upid": "no such task"}, r.Errors)
	})
}
