package pvesim

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
)

// someTest is a test that can fail while the one around it passes.
type someTest struct {
	ends   []func()
	errors []string
}

func (t *someTest) Helper()          {}
func (t *someTest) Cleanup(f func()) { t.ends = append(t.ends, f) }
func (t *someTest) Errorf(format string, args ...any) {
	t.errors = append(t.errors, fmt.Sprintf(format, args...))
}

func TestARuleThatNothingMetFailsItsTest(t *testing.T) {
	for path, want := range map[string][]string{
		".*/version": nil,
		".*/clone":   {"pvesim: no request met the rule GET .*/clone"},
	} {
		s := New(EightA100(), Options{})
		user := &someTest{}
		s.Expect(user, Rule{Method: "GET", Path: path, Status: 500})
		resp, err := s.Client().Get("https://pve1:8006/api2/json/version")
		require.NoError(t, err)
		resp.Body.Close()
		for _, end := range user.ends {
			end()
		}
		assert.Equal(t, want, user.errors)
		s.Close()
	}
}

// Every path of the schema can be named by a rule, and the end of one cannot.
func TestRulesThatCanMatchNothingAreRefused(t *testing.T) {
	s := New(EightA100(), Options{})
	defer s.Close()
	for name := range schema.Load().Methods {
		method, path, _ := strings.Cut(name, " ")
		assert.NotPanics(t, func() { s.Fail(Rule{Method: method, Path: regexp.QuoteMeta(path)}) }, name)
	}
	for _, path := range []string{"/clone$", "/status/start", "clone", "nodes/pve1"} {
		assert.PanicsWithValue(t, fmt.Sprintf("pvesim: no request has a path that matches %q, which is compared with the whole path below /api2/json: write %q", path, ".*"+path),
			func() { s.Fail(Rule{Method: http.MethodPost, Path: path}) })
	}
}

// Options of a start that are a migration's are root's own, and no token's; false is as good as none.
func TestOptionsOfAStartThatOnlyRootMayUse(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, _ *Sim, c *caller) {
		for name, value := range map[string]string{"skiplock": "1", "migratedfrom": "pve1", "migration_type": "secure", "targetstorage": "local",
			"force-cpu": "host", "with-conntrack-state": "1", "nets-host-mtu": "net0=1500"} {
			assert.Equal(t, "Only root may use this option.", c.do("POST", "/nodes/pve1/qemu/104/status/start", name, value).Errors[name], name)
		}
		for _, name := range []string{"skiplock", "with-conntrack-state"} {
			assert.Empty(t, c.do("POST", "/nodes/pve1/qemu/104/status/start", name, "0").Errors, name)
		}
	})
}
