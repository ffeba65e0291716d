package main

import (
	_ "embed"
	"fmt"

	"github.com/goccy/go-yaml"
)

//go:embed expected.yaml
var expectedYAML []byte

// readExpected reads which tests fail, by suite, and why.
func readExpected() (map[string]map[string]string, error) {
	var all map[string]map[string]string
	if err := yaml.UnmarshalWithOptions(expectedYAML, &all, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("expected.yaml: %w", err)
	}
	for suite, tests := range all {
		for test, why := range tests {
			if why == "" {
				return nil, fmt.Errorf("expected.yaml: %s of %s has no reason", test, suite)
			}
		}
	}
	return all, nil
}
