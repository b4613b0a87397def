module answerer

go 1.26
