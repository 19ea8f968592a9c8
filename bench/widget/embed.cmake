# cmake -DPAGE=widget.html -DMODULE=simulator.wasm -DOUTPUT=file.html -P embed.cmake: the page with the module in it.
execute_process(COMMAND base64 --wrap=0 ${MODULE} OUTPUT_VARIABLE module COMMAND_ERROR_IS_FATAL ANY)
file(READ ${PAGE} text)
string(REPLACE "/*simulator.wasm*/" "${module}" page "${text}")
if(page STREQUAL text)
  message(FATAL_ERROR "${PAGE} has no /*simulator.wasm*/")
endif()
file(WRITE ${OUTPUT} "${page}")
