module eight_streams

go 1.21
