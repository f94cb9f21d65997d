//go:build tools

// Package tools pins the command of fake-gcs-server in go.mod and go.sum.
package tools

import _ "github.com/fsouza/fake-gcs-server"
