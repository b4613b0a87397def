//go:build gangnames

package main

import "grovemigrator/fork/operator/api/common"

func init() { println(common.GeneratePodGangName("set", "hash")) }
