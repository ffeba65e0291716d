package addon_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
)

// people is the receiver of Alertmanager's that tells people, and the Secret that it reads.
func people(t *testing.T, a spec.Alerts) (map[string]any, map[string]string) {
	t.Helper()
	p := must(t, addon.Monitoring{Monitoring: &spec.Monitoring{Retention: 24 * time.Hour, Alertmanager: spec.On, Alerts: &a}}, addon.Site{})
	require.Equal(t, "homelab-alerts", p.Secrets[1].Name)
	data := map[string]string{}
	for key, value := range p.Secrets[1].Data {
		data[key] = value.Reveal()
	}
	all, _, err := unstructured.NestedSlice(p.Release.Values, "alertmanager", "config", "receivers")
	require.NoError(t, err)
	return all[1].(map[string]any), data
}

func TestAlertsReachEachThatIsNamed(t *testing.T) {
	hook := func(name string) map[string]any {
		return map[string]any{"url_file": "/etc/alertmanager/secrets/homelab-alerts/" + name, "send_resolved": true}
	}
	r, data := people(t, spec.Alerts{Ntfy: told(t, "https://ntfy.sh/topic?priority=high\n")})
	assert.Equal(t, map[string]any{"name": "people", "webhook_configs": []any{hook("ntfy")}}, r)
	assert.Equal(t, map[string]string{"ntfy": "https://ntfy.sh/topic?priority=high&template=alertmanager"}, data)

	mail := spec.Mail{Server: "smtp.example.org:587", To: []string{"a@example.org", "b@example.org"}, From: "lab@example.org", User: "lab", Password: told(t, "a-password")}
	r, data = people(t, spec.Alerts{Webhook: told(t, "http://10.0.0.9/hook"), Mail: &mail})
	assert.Equal(t, map[string]any{"name": "people", "webhook_configs": []any{hook("webhook")}, "email_configs": []any{map[string]any{
		"to": "a@example.org, b@example.org", "from": "lab@example.org", "smarthost": "smtp.example.org:587", "send_resolved": true,
		"auth_username": "lab", "auth_password_file": "/etc/alertmanager/secrets/homelab-alerts/password"}}}, r)
	assert.Equal(t, map[string]string{"webhook": "http://10.0.0.9/hook", "password": "a-password"}, data)
}

// A secret that is not a URL stays secret.
func TestAlertsWithoutAnURL(t *testing.T) {
	for _, text := range []string{"hunter2", "://hunter2", "ftp://hunter2/x", "https://"} {
		_, err := addon.Monitoring{Monitoring: &spec.Monitoring{Retention: 24 * time.Hour, Alertmanager: spec.On, Alerts: &spec.Alerts{Webhook: told(t, text)}}}.Make(&addon.Site{})
		require.ErrorContains(t, err, "monitoring.alerts.webhook: the secret is not a URL", text)
		assert.False(t, strings.Contains(err.Error(), "hunter2"), text)
	}
}

// The summary of each rule of an alert says where, and the pages have the rule.
func TestAlertRulesAreOnThePages(t *testing.T) {
	var pages []string
	for _, name := range []string{"platform.md", "doctor.md"} {
		text, err := os.ReadFile("../../docs/" + name)
		require.NoError(t, err)
		pages = append(pages, string(text))
	}
	rules := alertRules(t)
	assert.Len(t, rules, 15)
	for name, rule := range rules {
		assert.Contains(t, dig(rule, "annotations", "summary"), "{{ $labels.", name)
		for i, page := range pages {
			if i == 0 || name != "GPUHot" { // which cluster:doctor does not ask
				assert.Contains(t, page, "`"+name+"`")
			}
		}
	}
}

// alertRules are those of all parts, by name.
func alertRules(t *testing.T) map[string]any {
	t.Helper()
	var groups []any
	for _, s := range samples(t) {
		if s.part.Release != nil {
			more, _ := s.part.Release.Values["additionalPrometheusRulesMap"].(map[string]any)
			for _, group := range more {
				groups = append(groups, dig(group, "groups").([]any)...)
			}
		}
		for _, o := range s.part.After {
			if u, ok := o.(*unstructured.Unstructured); ok && u.GetKind() == "PrometheusRule" {
				groups = append(groups, dig(u.Object, "spec", "groups").([]any)...)
			}
		}
	}
	rules := map[string]any{}
	for _, group := range groups {
		for _, rule := range dig(group, "rules").([]any) {
			rules[dig(rule, "alert").(string)] = rule
		}
	}
	return rules
}
