package record

import (
	"context"
	"errors"
	"slices"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// balance turns what is in use on a host into what is in use beside that which the
// model simulates anyway: a simulator of the model is asked for its own share.
func (r *reader) balance(ctx context.Context, m *pvesim.Model) error {
	if wrong := unsound(*m); wrong != nil { // said, and the figures stay as they are
		for _, w := range wrong {
			r.missing = append(r.missing, "the model is not sound: "+w.What)
		}
		return nil
	}
	own := *m
	own.Hosts = slices.Clone(m.Hosts)
	for i := range own.Hosts {
		h := &own.Hosts[i]
		h.Used, h.Storages = 0, slices.Clone(h.Storages)
		for j := range h.Storages {
			h.Storages[j].Used = 0
		}
	}
	const id, value = "root@pam!balance", "1"
	own.Tokens = append(slices.Clone(m.Tokens), pvesim.Token{ID: id, Secret: value})
	sim := pvesim.New(own, pvesim.Options{})
	defer sim.Close()
	asked := &reader{o: Options{Endpoint: "https://pvesim", TokenID: id, TokenSecret: value, Client: sim.Client()}}
	for i := range m.Hosts {
		h := &m.Hosts[i]
		if h.Offline {
			continue
		}
		var status entry
		if err := asked.get(ctx, "/nodes/"+h.Name+"/status", nil, &status); err != nil {
			return err
		}
		h.Used = max(0, h.Used-pvesim.Size(status.object("memory").number("used")))
		for _, e := range asked.rows(ctx, "/nodes/"+h.Name+"/storage", "storage", nil) {
			if j := slices.IndexFunc(h.Storages, func(st pvesim.Storage) bool { return st.Name == e.text("storage") }); j >= 0 {
				h.Storages[j].Used = max(0, h.Storages[j].Used-pvesim.Size(e.number("used")))
			}
		}
	}
	return nil
}

// unsound is what a reader of the model would refuse.
func unsound(m pvesim.Model) pvesim.ModelErrors {
	text, err := m.YAML()
	if err != nil {
		return pvesim.ModelErrors{{What: err.Error()}}
	}
	_, err = pvesim.ParseModel("model", text)
	var wrong pvesim.ModelErrors
	if err != nil && !errors.As(err, &wrong) {
		return pvesim.ModelErrors{{What: err.Error()}}
	}
	return wrong
}
