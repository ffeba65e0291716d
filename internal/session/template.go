package session

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/internal/console"
)

// TemplateList prints the templates of the cluster: contents, age and linked machines.
func TemplateList(s *Session, ctx context.Context) error {
	templates, err := s.Cluster.Templates(ctx)
	if err != nil {
		return err
	}
	if s.JSON {
		return console.Objects(s.Console, templates)
	}
	if len(templates) == 0 {
		s.Printf("There is no template yet: cluster:up bakes one for each host.")
		return nil
	}
	t := console.Table{Header: []string{"HOST", "VMID", "NAME", "STATE", "SIZE", "MADE", "HOLDS", "USED BY"}}
	for _, info := range templates {
		made := info.Holds.Made
		if made == "" {
			made = "-"
		}
		t.Add(info.Host, fmt.Sprint(info.VMID), info.Name, info.State, info.Size.String(), made, info.Holds.String(), dash(info.Nodes))
	}
	s.Table(t)
	return nil
}

// TemplatePrune removes templates, ISOs and images that nothing needs, after asking.
func TemplatePrune(s *Session, ctx context.Context, f ChangeFlags) error {
	return s.runConfirmed(ctx, s.Cluster.Prune, Change{
		ChangeFlags: f, Question: "Remove all this?", Name: "yes",
		Nothing: "Nothing to remove: every template is current, or machines are linked to its disks.",
	})
}
