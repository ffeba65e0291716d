package addon

import (
	"errors"
	"net/url"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// alertsSecret has what Alertmanager's configuration must not show: addresses of hooks, and a password.
const (
	alertsSecret = "homelab-alerts"
	alertsFolder = "/etc/alertmanager/secrets/" + alertsSecret + "/"
)

// alerts adds to the values who is told, and rules beside those of the chart. It returns the Secret for it.
func (m Monitoring) alerts(s *Site, v values) ([]chart.Secret, error) {
	if m.Alerts == nil {
		return nil, nil
	}
	receiver, data, err := m.receiver(s)
	if err != nil {
		return nil, err
	}
	v["alertmanager"] = values{
		"enabled": true, "alertmanagerSpec": values{"secrets": []any{alertsSecret}},
		"config": values{
			"route": values{
				"receiver": "people", "group_by": []any{"alertname", "namespace", "node"},
				// Watchdog, which always fires, and what inhibits others have none.
				"routes": []any{values{"receiver": "nobody", "matchers": []any{`severity =~ "info|none"`}}},
			},
			"receivers": []any{values{"name": "nobody"}, receiver},
		},
	}
	groups := values{"cluster": ruleGroup("cluster", clusterRules())}
	if m.GPUs.IsOn() {
		groups["gpus"] = ruleGroup("gpus", gpuRules())
	}
	if s.Has("cert-manager") {
		groups["certificates"] = ruleGroup("certificates", certificateRules())
	}
	v["additionalPrometheusRulesMap"] = groups
	return []chart.Secret{{Namespace: monitoringNamespace, Name: alertsSecret, Data: data}}, nil
}

// receiver is the receiver of Alertmanager's that tells all whom the file names, and the secrets
// that it reads from files.
func (m Monitoring) receiver(s *Site) (values, map[string]secret.Value, error) {
	out, data := values{"name": "people"}, map[string]secret.Value{}
	var hooks []any
	for _, h := range []struct {
		name  string
		ref   spec.SecretRef
		query url.Values
	}{
		// ntfy's own template for Alertmanager's JSON (server/templates/alertmanager.yml).
		{"ntfy", m.Alerts.Ntfy, url.Values{"template": {"alertmanager"}}}, {"webhook", m.Alerts.Webhook, nil},
	} {
		if h.ref.IsZero() {
			continue
		}
		at, err := s.hook("monitoring.alerts."+h.name, h.ref, h.query)
		if err != nil {
			return nil, nil, err
		}
		data[h.name] = at
		hooks = append(hooks, values{"url_file": alertsFolder + h.name, "send_resolved": true})
	}
	if hooks != nil {
		out["webhook_configs"] = hooks
	}
	if to := m.Alerts.Mail; to != nil {
		mail := values{"to": strings.Join(to.To, ", "), "from": to.From, "smarthost": to.Server, "send_resolved": true}
		if to.User != "" {
			password, err := s.Secret("monitoring.alerts.mail.password", to.Password)
			if err != nil {
				return nil, nil, err
			}
			data["password"], mail["auth_username"], mail["auth_password_file"] = password, to.User, alertsFolder+"password"
		}
		out["email_configs"] = []any{mail}
	}
	return out, data, nil
}

// hook reads a URL, which is secret, and adds to its query.
func (s *Site) hook(at string, ref spec.SecretRef, query url.Values) (secret.Value, error) {
	text, err := s.Secret(at, ref)
	if err != nil || s.Unread {
		return text, err
	}
	u, err := url.Parse(strings.TrimSpace(text.Reveal()))
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return secret.Value{}, errors.New(at + ": the secret is not a URL; store one that begins with https://") // the cause would show it
	}
	all := u.Query()
	for key, value := range query {
		all[key] = value
	}
	u.RawQuery = all.Encode()
	return secret.New(u.String()), nil
}
