// Command 06-lint-repository finds mistakes in a repository for Fleet, without a cluster; its
// exit code is 1 if there are any.
//
//	go run . path/to/repository
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cps-gpu/homelab/fleet/lint"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: lint-repository FOLDER")
	}
	root, err := os.OpenRoot(os.Args[1]) // links out of it are not followed
	if err != nil {
		log.Fatal(err)
	}
	report, err := lint.Run(context.Background(), root.FS(), lint.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, finding := range report.Findings {
		fmt.Println(finding)
	}
	fmt.Println(report.Summary())
	if report.Count(lint.Failure) > 0 {
		os.Exit(1)
	}
}
