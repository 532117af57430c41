"""Messages in, records and reports out, for every command.

``sources`` opens the files and pipes that a command line names; ``output_sink`` writes records in the format that was
asked for, ``output_file`` into a file that appears complete or not at all, ``rows`` facts about an instance as rows;
``report_output`` says what a verb did, what it found and what was refused; ``bulk_load`` lets memo indexes follow a
bulk load.
"""
