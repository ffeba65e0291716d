package clusterfile

import (
	"fmt"
	"net"
	"net/mail"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

func (r partsSection) alerts(m *spec.Monitoring) {
	a := m.Alerts
	m.Alertmanager = m.Alertmanager.Or(a != nil)
	if a == nil {
		return
	}
	if !m.Alertmanager.IsOn() {
		r.Wrong(&m.Alertmanager, "Alertmanager sends the alerts, and it is off", "remove alertmanager: false, or alerts")
	}
	if a.Ntfy.IsZero() && a.Webhook.IsZero() && a.Mail == nil {
		r.Wrong(a, "alerts says nobody whom to tell", "write ntfy: env:NAME with a reference to a topic's URL, or webhook, or mail")
	}
	if a.Mail == nil {
		return
	}
	if host, port, err := net.SplitHostPort(a.Mail.Server); err != nil || !isHost(host) || !decode.IsPort(port) {
		r.Wrong(&a.Mail.Server, fmt.Sprintf("%q cannot be a mail server", a.Mail.Server), "write its name and port, e.g. smtp.home.example:587")
	}
	if len(a.Mail.To) == 0 {
		r.Wrong(&a.Mail.To, "mail has no addresses", "write to: [you@home.example]")
	}
	addresses := []*string{&a.Mail.From}
	for i := range a.Mail.To {
		addresses = append(addresses, &a.Mail.To[i])
	}
	for _, at := range addresses {
		if _, err := mail.ParseAddress(*at); err != nil {
			r.Wrong(at, fmt.Sprintf("%q is not an address of mail", *at), "write e.g. you@home.example")
		}
	}
	if (a.Mail.User == "") != a.Mail.Password.IsZero() {
		r.Wrong(a.Mail, "a login needs user and password", "write both, or none")
	}
}
